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
	if now := time.Now(); a.slept(now, time.Hour) || a.slept(now, lateBound-1) {
		t.Error("the first look, or one that is a little late, says suspended")
	}
	if !a.slept(time.Now(), 20*time.Second) || !a.slept(time.Now(), 40*time.Second) {
		t.Error("a suspension was not noticed")
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
