// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"testing"
	"time"
)

// TestStepped holds that a step moves the wall clock and not the monotonic one.
func TestStepped(t *testing.T) {
	before := time.Now()
	for _, step := range []time.Duration{0, time.Second, -time.Second, 40 * 365 * 24 * time.Hour, -100 * 24 * time.Hour} {
		after := stepped(before.Add(time.Minute), step)
		if got := after.Sub(before); got != time.Minute {
			t.Errorf("step %v: the monotonic clock moved by %v", step, got-time.Minute)
		}
		if got := after.Round(0).Sub(before.Round(0)); got != time.Minute+step {
			t.Errorf("step %v: the wall clock moved by %v", step, got-time.Minute)
		}
	}
}
