// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

// TestSleptIsCounted: the metrics tell how long the agent was not running.
func TestSleptIsCounted(t *testing.T) {
	a, err := New(Config{OpsListen: "127.0.0.1:0", Logger: testkit.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer a.ops.Close()
	now := time.Now()
	for _, late := range []time.Duration{time.Hour, lateBound - 1} {
		if asleep, slept := a.slept(now, late); slept || asleep != 0 {
			t.Error("the first look, or one that is a little late, says suspended")
		}
	}
	for _, late := range []time.Duration{20 * time.Second, 40 * time.Second} {
		if asleep, slept := a.slept(time.Now(), late); !slept || asleep != 0 { // the clock has seen it
			t.Errorf("%v late: suspended %v, of which the clock has missed %v", late, slept, asleep)
		}
	}
	families, err := a.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		got[f.GetName()] = f.GetMetric()[0].GetCounter().GetValue()
	}
	if got["sandbox_agent_suspensions_total"] != 2 || got["sandbox_agent_suspended_seconds_total"] != 60 {
		t.Errorf("%v suspensions of %v s", got["sandbox_agent_suspensions_total"], got["sandbox_agent_suspended_seconds_total"])
	}
}
