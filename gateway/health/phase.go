// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// Phase is the phase of a sandbox. The numbers are those of the API's
// SandboxPhase.
type Phase uint8

// The phases of a sandbox.
const (
	PhaseUnspecified Phase = iota
	Provisioning
	Ready
	Error
	Deleting
	PhaseUnknown
	Stopping
	Stopped
	Starting
)

// Lifecycle is what was asked of a sandbox and what is stored of it.
type Lifecycle struct {
	// Generation is the current one. A slot of another one says nothing.
	Generation uint64
	// Asked is Stopping, Stopped, Starting or Deleting where that is what was
	// asked for last; otherwise Ready.
	Asked Phase
	// Connected says that a session of the current generation is on record. A
	// slot that has lost one says the same.
	Connected bool
	// Exited says that the main process of the current generation has ended.
	Exited bool
}

// Grace is how long a sandbox counts as READY after it lost its session.
const Grace = 15 * time.Second

// PhaseOf tells the phase of a sandbox at the instant now. started is when
// this gateway began to accept sessions: a sandbox whose session ended with
// an earlier gateway process counts from there.
func PhaseOf(l Lifecycle, slot Slot, started, now time.Time) Phase {
	slot = slot.Of(l.Generation)
	switch {
	case l.Asked == Deleting || l.Asked == Stopping || l.Asked == Stopped:
		return l.Asked
	case l.Exited:
		return Error
	case slot.Live:
		return Ready
	case !l.Connected && slot.Lost.IsZero() && l.Asked == Starting:
		return Starting
	case !l.Connected && slot.Lost.IsZero():
		return Provisioning
	}
	lost := started
	if slot.Lost.After(lost) {
		lost = slot.Lost
	}
	if now.Sub(lost) < Grace {
		return Ready
	}
	return PhaseUnknown
}
