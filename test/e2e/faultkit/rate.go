// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package faultkit

import (
	"os/exec"
	"testing"
)

// Limit makes the link a slow one, in both directions and from now on: rate as
// tc has it, "2mbit", with a queue that holds 200 ms of it.
func (l *Link) Limit(t testing.TB, rate string) {
	t.Helper()
	if _, err := exec.LookPath("tc"); err != nil {
		t.Skip("there is no tc command: install iproute2")
	}
	args := func(dev string) []string {
		return []string{"qdisc", "replace", "dev", dev, "root", "tbf", "rate", rate, "burst", "16kb", "latency", "200ms"}
	}
	_, err := l.ns.Command("tc", args(inside)...)
	if err == nil {
		err = exec.Command("tc", args(l.outside)...).Run()
	}
	if err != nil {
		t.Skipf("a link cannot be slowed down, the kernel needs sch_tbf: %v", err)
	}
}
