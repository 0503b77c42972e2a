#!/bin/sh
# Copyright The sandbox-agent Authors
# SPDX-License-Identifier: Apache-2.0

sockets="@SOCKETS@"

command -v systemd-sysusers >/dev/null && systemd-sysusers @PACKAGE@.conf
command -v systemd-tmpfiles >/dev/null && systemd-tmpfiles --create @PACKAGE@.conf
if command -v systemctl >/dev/null; then
  # 1: the first installation. The distribution's presets decide.
  [ "$1" != 1 ] || systemctl --no-reload preset @SERVICE@ $sockets >/dev/null 2>&1
  [ ! -d /run/systemd/system ] || systemctl daemon-reload >/dev/null 2>&1
fi
exit 0
