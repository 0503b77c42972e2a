// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"
	"time"
)

// TestGenerations holds that a session of one generation of a sandbox says
// nothing of another: a stop and a start can pass a handshake that is under
// way.
func TestGenerations(t *testing.T) {
	endpoint := Endpoint{ID: service, Revision: revision, Generation: 2}
	starting := Lifecycle{Generation: 2, Asked: Starting}
	ask := func(c *Cache) (Phase, Reason) {
		slot := c.Slot(sandbox)
		phase := PhaseOf(starting, slot, t0, t0)
		return phase, Evaluate(endpoint, phase, slot, t0).Reason
	}
	c := NewCache()
	c.Connected(sandbox, 1, 1, instance) // late
	c.Reported(sandbox, 1, 1, []Observation{fresh(t0)}, only(service))
	if phase, reason := ask(c); phase != Starting || reason != SandboxNotReady {
		t.Errorf("a session of the generation before: phase %d, %v", phase, reason)
	}
	if at := PhaseExpires(starting, c.Slot(sandbox), t0, t0); !at.IsZero() {
		t.Errorf("the phase is said to change at %v", at)
	}
	c.Disconnected(sandbox, 1, t0.Add(-time.Second))
	if phase, _ := ask(c); phase != Starting {
		t.Errorf("the end of a session of the generation before: phase %d", phase)
	}

	c.Connected(sandbox, 2, 2, "instance-2")
	if phase, reason := ask(c); phase != Ready || reason != NotObserved {
		t.Errorf("the first session of the generation: phase %d, %v", phase, reason)
	}
	c.Connected(sandbox, 3, 1, instance) // later still
	c.Reported(sandbox, 3, 2, []Observation{fresh(t0)}, only(service))
	c.Disconnected(sandbox, 3, t0)
	if phase, reason := ask(c); phase != Ready || reason != NotObserved {
		t.Errorf("a session of the generation before, too late: phase %d, %v", phase, reason)
	}
}
