#!/bin/sh
# Copyright The sandbox-agent Authors
# SPDX-License-Identifier: Apache-2.0

# 0: the last version is removed.
if [ "$1" = 0 ] && command -v systemctl >/dev/null; then
  if [ -d /run/systemd/system ]; then
    systemctl --no-reload disable --now @SOCKETS@ @SERVICE@ >/dev/null 2>&1
  else
    systemctl --no-reload disable @SOCKETS@ @SERVICE@ >/dev/null 2>&1
  fi
fi
exit 0
