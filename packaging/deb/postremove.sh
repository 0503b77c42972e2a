#!/bin/sh
# Copyright The sandbox-agent Authors
# SPDX-License-Identifier: Apache-2.0

set -e

if [ "$1" = purge ]; then
  if command -v deb-systemd-helper >/dev/null; then
    deb-systemd-helper purge @SERVICE@ @SOCKETS@ >/dev/null
  fi
  # Nobody else owns a file of this user: all it had is removed with it.
  rm -rf /var/lib/private/@PACKAGE@ /var/lib/@PACKAGE@ /run/@PACKAGE@
  rmdir /etc/@PACKAGE@ /run/credstore /etc/credstore 2>/dev/null || true
  if command -v userdel >/dev/null && getent passwd @PACKAGE@ >/dev/null; then
    userdel @PACKAGE@ || true
  fi
fi
if [ -d /run/systemd/system ]; then
  systemctl --system daemon-reload >/dev/null || true
fi
