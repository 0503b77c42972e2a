#!/bin/sh
# Copyright The sandbox-agent Authors
# SPDX-License-Identifier: Apache-2.0

# 1: another version stays. Its sockets stay open: no connection is refused.
if command -v systemctl >/dev/null && [ -d /run/systemd/system ]; then
  systemctl daemon-reload >/dev/null 2>&1
  [ "$1" = 0 ] || systemctl try-restart @SERVICE@ >/dev/null 2>&1
fi
exit 0
