// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"testing"
	"time"

	supervisorv1 "github.com/sandbox-agent/sandbox-agent/api/supervisor/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

// TestLateReport: a report that was under way for 20 s says when things were,
// and not when it came.
func TestLateReport(t *testing.T) {
	const id, instance, revision = "service-1", "agent-1", 3
	opened := time.Now()
	cache := health.NewCache()
	cache.Connected("sandbox", 1, 1, instance)
	services := []Service{{ID: id, Service: probe.Service{Revision: revision, Target: probe.Target{Port: 80}}}}
	in, _ := NewIntake(cache, "sandbox", 1, instance, services, opened, nil)

	// Made 12 s after the session was opened, 1 s after an attempt.
	made := opened.Add(12 * time.Second)
	taken, err := in.Report(&supervisorv1.Report{
		Sequence: 1, SinceAckUs: 12_000_000,
		Services: []*supervisorv1.Observation{{
			Revision: revision, State: supervisorv1.State_STATE_HEALTHY, Outcome: supervisorv1.Outcome_OUTCOME_PASS,
			Reason: supervisorv1.Reason_REASON_OK, Code: 200, AgeMs: 1_000, StateAgeMs: 10_000,
		}},
	}, made.Add(20*time.Second))
	if err != nil || taken.Superseded {
		t.Fatalf("%+v, %v", taken, err)
	}
	a := health.Evaluate(health.Endpoint{ID: id, Revision: revision, Generation: 1}, health.Ready, cache.Slot("sandbox"), made)
	if a.State != probe.Healthy {
		t.Fatalf("%+v", a)
	}
	for what, d := range map[string]time.Duration{
		"latest attempt":     a.Observation.Latest.Sub(opened) - 11*time.Second,
		"conclusive attempt": a.Observation.Conclusive.Sub(opened) - 11*time.Second,
		"change of state":    a.Observation.Since.Sub(opened) - 2*time.Second,
	} {
		if d != 0 {
			t.Errorf("the %s is said to have been %v later than it was", what, d)
		}
	}
}
