// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package systemd tests the packages on machines with a real systemd as
// process 1: containers of systemd-nspawn, booted from one root file system
// that nobody writes to, each with a cgroup and a network of its own. What a
// test starts it ends, by process id and by cgroup; test/systemd.sh removes
// what a test that was killed has left.
package systemd
