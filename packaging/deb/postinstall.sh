#!/bin/sh
# Copyright The sandbox-agent Authors
# SPDX-License-Identifier: Apache-2.0

set -e

case $1 in
  configure | abort-upgrade | abort-deconfigure | abort-remove) ;;
  *) exit 0 ;;
esac

sockets="@SOCKETS@"

if command -v systemd-sysusers >/dev/null; then
  systemd-sysusers @PACKAGE@.conf
fi
if command -v systemd-tmpfiles >/dev/null; then
  systemd-tmpfiles --create @PACKAGE@.conf || true
fi

# Enabled at the first installation, later left as the administrator has it.
for unit in @SERVICE@ $sockets; do
  if deb-systemd-helper --quiet was-enabled "$unit"; then
    deb-systemd-helper enable "$unit" >/dev/null
  else
    deb-systemd-helper update-state "$unit" >/dev/null
  fi
done

# In an image that is being built nothing is started.
if [ -d /run/systemd/system ]; then
  systemctl --system daemon-reload >/dev/null || true
  # Sockets stay open over an upgrade: no connection is refused.
  [ -z "$sockets" ] || deb-systemd-invoke start $sockets >/dev/null || true
  if [ -n "$2" ]; then
    deb-systemd-invoke restart @SERVICE@ >/dev/null || true
  else
    deb-systemd-invoke start @SERVICE@ >/dev/null || true
  fi
fi
