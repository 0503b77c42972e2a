#!/bin/sh
# Copyright The sandbox-agent Authors
# SPDX-License-Identifier: Apache-2.0

set -e

# An upgrade restarts the service once the new files are there.
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  deb-systemd-invoke stop @SOCKETS@ @SERVICE@ >/dev/null || true
fi
