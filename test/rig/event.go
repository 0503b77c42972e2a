// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"time"

	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

// Kind is what an Event is.
type Kind uint8

// The kinds of events, with the fields of Event that each has beside At.
const (
	GatewayStarted Kind = iota + 1
	// Asked: Phase is what was asked of the sandbox, Generation the one that is
	// current from then on.
	Asked
	// Exited: the gateway has learned that the main process of the current
	// generation has ended.
	Exited
	// Configured: Service has Revision from now on; 0 means that it is gone.
	Configured
	// Claimed: Session of Instance, with a token of Generation, has asked for
	// the sandbox, and got it or not (Accepted).
	Claimed
	// Recorded: the store has learned that a session of Generation was
	// accepted.
	Recorded
	// SessionEnded: the gateway has noticed the end of Session.
	SessionEnded
	// AgentStarted: Instance lives.
	AgentStarted
	// Told: the gateway has sent the list of Revisions over Session.
	Told
	// TookOver: Instance was told the list of Revisions.
	TookOver
	// Attempted: Instance has made Attempt at Revision.
	Attempted
	// Woke: Instance has found out that it did not run for a while, of which
	// its monotonic clock has missed Asleep.
	Woke
	// Leaving: Instance says in every report from now on that it leaves.
	Leaving
	// Reported: Instance has made report Sequence of Session; Agent is when, on
	// its clock.
	Reported
	// Received: the gateway has report Sequence of Session.
	Received
	// AckSent: the gateway acknowledges Sequence of Session. Sequence 0 opens
	// the session.
	AckSent
	// AckReceived: Instance has that acknowledgement; Agent is when.
	AckReceived
)

// Event is one thing that has happened.
type Event struct {
	Kind       Kind
	Accepted   bool
	Phase      health.Phase
	At         time.Duration // true time
	Agent      time.Duration // on the monotonic clock of the agent's machine
	Instance   string
	Generation uint64
	Session    uint64
	Sequence   uint64
	Service    string
	Revision   uint64
	Revisions  []uint64
	Asleep     time.Duration
	Attempt    Attempt
}

// Attempt is one attempt as it was.
type Attempt struct {
	Outcome probe.Outcome
	Reason  probe.Reason
	Code    uint16
	Extra   bool // off the timer
	// Start and Observed are on the monotonic clock of the agent's machine;
	// Observed is the end, but no later than the deadline.
	Start, Observed time.Duration
	// True is the true time of Observed.
	True    time.Duration
	Latency time.Duration
}
