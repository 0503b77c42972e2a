#!/usr/bin/env bash
# Copyright The sandbox-agent Authors
# SPDX-License-Identifier: Apache-2.0

# Tests the packages on machines with a real systemd. Makes, for this run alone,
# the machines' root file system, the packages, and packages of an older version;
# at the end removes them and whatever machines, cgroups and network name spaces
# are left. Arguments go to go test. Needs root, and a kernel with cgroups of
# version 2 (alone or beside version 1).
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
run=sa$$
groups=/sys/fs/cgroup/unified
[ -d $groups ] || groups=/sys/fs/cgroup

finish() {
  local group space job
  trap '' INT TERM
  for job in $(jobs -p); do kill "$job" 2>/dev/null || true; done
  # A machine that a test could not end: its name says that it is ours.
  for group in "$groups/$run"-*; do
    [ -d "$group" ] || continue
    echo 1 >"$group/cgroup.kill" || true
    for _ in $(seq 50); do # the killed need a moment to be gone
      find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null || true
      [ -d "$group" ] || break
      sleep 0.1
    done
  done
  for space in $(ip netns list | awk -v run="$run-" 'index($1, run) == 1 { print $1 }'); do ip netns del "$space"; done
  rm -rf "$dir"
}
trap finish EXIT
trap 'exit 130' INT TERM

root() {
  mmdebstrap --quiet --variant=essential --include=systemd,systemd-sysv,dbus,iproute2,curl,procps,busybox \
    --dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    bookworm "$dir/root"
}
root >"$dir/root.log" 2>&1 &
root=$!
ARCHES=$(go env GOHOSTARCH)
export ARCHES FORMATS=deb
packaging/build "$dir/packages"
VERSION=0.0.1 COMMANDS='sandbox-agent sandbox-gateway' packaging/build "$dir/previous"
wait "$root" || { cat "$dir/root.log" >&2; exit 1; }
echo "systemd: the root file system is there after $SECONDS s"

export SYSTEMD_TEST_ROOT=$dir/root SYSTEMD_TEST_PACKAGES=$dir/packages SYSTEMD_TEST_PREVIOUS=$dir/previous SYSTEMD_TEST_RUN=$run
go test -count=1 -v -parallel 3 -timeout 5m "$@" ./test/systemd
