// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"time"

	"github.com/sandbox-agent/sandbox-agent/probe"
)

// Reason says in one word why an answer is UNKNOWN. The zero Reason means
// that the answer is the agent's own verdict.
type Reason uint8

// The reasons of the contract, in the order in which they are tried.
const (
	NoReason Reason = iota
	SandboxStopped
	SandboxNotReady
	SupervisorDisconnected
	RuntimeReplaced
	ConfigurationChanged
	NotObserved
	Stale
	Inconclusive
	numReasons
)

var reasonNames = [numReasons]string{
	"", "SandboxStopped", "SandboxNotReady", "SupervisorDisconnected", "RuntimeReplaced",
	"ConfigurationChanged", "NotObserved", "Stale", "Inconclusive",
}

// String returns the word that clients see, or "" for NoReason.
func (r Reason) String() string {
	if r >= numReasons {
		return "Unknown"
	}
	return reasonNames[r]
}

// Endpoint is what Evaluate needs of the stored record of a service.
type Endpoint struct {
	ID       string
	Revision uint64
	// Generation is the current one of the sandbox. A slot of another one says
	// nothing.
	Generation uint64
}

// Answer is the health of one service at one instant.
type Answer struct {
	State  probe.State
	Reason Reason
	// Observation is what the answer rests on or last rested on; nil where
	// nothing was observed of this configuration by the current instance.
	Observation *Observation
}

// Evaluate answers for a service of a sandbox that is in the given phase and
// of which slot is known, at the instant now. It is pure.
func Evaluate(e Endpoint, phase Phase, slot Slot, now time.Time) Answer {
	slot = slot.Of(e.Generation)
	o := slot.observation(e.ID)
	current := o != nil && o.Instance == slot.Instance && o.Revision == e.Revision
	unknown := func(r Reason) Answer {
		a := Answer{State: probe.Unknown, Reason: r}
		if current {
			a.Observation = o
		}
		return a
	}
	switch {
	case phase == Stopped:
		return Answer{Reason: SandboxStopped}
	case phase != Ready && phase != PhaseUnknown:
		return Answer{Reason: SandboxNotReady}
	case !slot.Live:
		return unknown(SupervisorDisconnected)
	case o != nil && o.Instance != slot.Instance:
		return unknown(RuntimeReplaced)
	case o != nil && o.Revision != e.Revision:
		return unknown(ConfigurationChanged)
	case o == nil:
		return unknown(NotObserved)
	case now.Sub(o.freshness()) >= probe.StaleAfter:
		return unknown(Stale)
	case o.State == probe.Unknown && o.Outcome == probe.Inconclusive:
		return unknown(Inconclusive)
	}
	return Answer{State: o.State, Observation: o}
}
