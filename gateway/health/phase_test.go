// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"
	"time"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
)

func TestPhaseOf(t *testing.T) {
	live := Slot{Session: 1, Live: true}
	lost := func(ago time.Duration) Slot { return Slot{Session: 1, Lost: t0.Add(-ago)} }
	longAgo := t0.Add(-time.Hour)
	for _, tc := range []struct {
		name    string
		l       Lifecycle
		slot    Slot
		started time.Time
		want    Phase
	}{
		{"created, no session yet", Lifecycle{Asked: Ready}, Slot{}, longAgo, Provisioning},
		{"created, the first session", Lifecycle{Asked: Ready}, live, longAgo, Ready},
		{"running", Lifecycle{Asked: Ready, Connected: true}, live, longAgo, Ready},
		{"lost 14.9 s ago", Lifecycle{Asked: Ready, Connected: true}, lost(14900 * time.Millisecond), longAgo, Ready},
		{"lost 15 s ago", Lifecycle{Asked: Ready, Connected: true}, lost(15 * time.Second), longAgo, PhaseUnknown},
		{"lost before the session was on record", Lifecycle{Asked: Ready}, lost(time.Second), longAgo, Ready},
		{"the same, long ago", Lifecycle{Asked: Ready}, lost(time.Minute), longAgo, PhaseUnknown},

		{"the gateway has just started", Lifecycle{Asked: Ready, Connected: true}, Slot{}, t0, Ready},
		{"the gateway started 14.9 s ago", Lifecycle{Asked: Ready, Connected: true}, Slot{}, t0.Add(-14900 * time.Millisecond), Ready},
		{"the gateway started 15 s ago", Lifecycle{Asked: Ready, Connected: true}, Slot{}, t0.Add(-15 * time.Second), PhaseUnknown},
		{"never connected, the gateway has just started", Lifecycle{Asked: Ready}, Slot{}, t0, Provisioning},
		{"lost after the gateway started", Lifecycle{Asked: Ready, Connected: true}, lost(10 * time.Second), t0.Add(-20 * time.Second), Ready},

		{"started, no session yet", Lifecycle{Asked: Starting}, Slot{}, longAgo, Starting},
		{"started, the first session", Lifecycle{Asked: Starting}, live, longAgo, Ready},
		{"started, and lost again", Lifecycle{Asked: Starting}, lost(time.Second), longAgo, Ready},

		{"stopping, the session still open", Lifecycle{Asked: Stopping, Connected: true}, live, longAgo, Stopping},
		{"stopping", Lifecycle{Asked: Stopping, Connected: true}, lost(time.Second), longAgo, Stopping},
		{"stopped", Lifecycle{Asked: Stopped, Connected: true}, lost(time.Hour), longAgo, Stopped},
		{"stopped, a session still open", Lifecycle{Asked: Stopped, Connected: true}, live, longAgo, Stopped},
		{"stopped after its main process has exited", Lifecycle{Asked: Stopped, Connected: true, Exited: true}, Slot{}, longAgo, Stopped},
		{"deleting", Lifecycle{Asked: Deleting, Connected: true}, live, longAgo, Deleting},
		{"deleting after its main process has exited", Lifecycle{Asked: Deleting, Exited: true}, Slot{}, longAgo, Deleting},

		{"its main process has exited", Lifecycle{Asked: Ready, Connected: true, Exited: true}, lost(time.Second), longAgo, Error},
		{"the same, the agent still there", Lifecycle{Asked: Ready, Connected: true, Exited: true}, live, longAgo, Error},
		{"exited before a session", Lifecycle{Asked: Ready, Exited: true}, Slot{}, longAgo, Error},
		{"started, and exited at once", Lifecycle{Asked: Starting, Exited: true}, Slot{}, longAgo, Error},
	} {
		if got := PhaseOf(tc.l, tc.slot, tc.started, t0); got != tc.want {
			t.Errorf("%s: phase %d, want %d", tc.name, got, tc.want)
		}
	}
}

// The numbers are sent as they are.
func TestPhaseNumbers(t *testing.T) {
	for phase, want := range map[Phase]openshellv1.SandboxPhase{
		PhaseUnspecified: openshellv1.SandboxPhase_SANDBOX_PHASE_UNSPECIFIED,
		Provisioning:     openshellv1.SandboxPhase_SANDBOX_PHASE_PROVISIONING,
		Ready:            openshellv1.SandboxPhase_SANDBOX_PHASE_READY,
		Error:            openshellv1.SandboxPhase_SANDBOX_PHASE_ERROR,
		Deleting:         openshellv1.SandboxPhase_SANDBOX_PHASE_DELETING,
		PhaseUnknown:     openshellv1.SandboxPhase_SANDBOX_PHASE_UNKNOWN,
		Stopping:         openshellv1.SandboxPhase_SANDBOX_PHASE_STOPPING,
		Stopped:          openshellv1.SandboxPhase_SANDBOX_PHASE_STOPPED,
		Starting:         openshellv1.SandboxPhase_SANDBOX_PHASE_STARTING,
	} {
		if int32(phase) != int32(want) {
			t.Errorf("phase %d is %v (%d) in the API", phase, want, want)
		}
	}
	if n := len(openshellv1.SandboxPhase_name); n != int(Starting)+1 {
		t.Errorf("the API has %d phases, this package %d", n, Starting+1)
	}
}
