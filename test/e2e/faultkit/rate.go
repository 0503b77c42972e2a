// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package faultkit

import (
	"os/exec"
	"testing"
)

// Limit makes the way out of the namespace a slow one, from now on: rate as tc
// has it, "2mbit", with a queue that holds 200 ms of it.
func (l *Link) Limit(t testing.TB, rate string) {
	t.Helper()
	if _, err := exec.LookPath("tc"); err != nil {
		t.Skip("there is no tc command: install iproute2")
	}
	if _, err := l.ns.Command("tc", "qdisc", "replace", "dev", inside, "root", "tbf", "rate", rate, "burst", "16kb", "latency", "200ms"); err != nil {
		t.Skipf("a link cannot be slowed down, the kernel needs sch_tbf: %v", err)
	}
}
