// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"time"

	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

// verdict is the part of an answer whose change is news. Its zero value is
// that of an answer never given.
type verdict struct {
	given  bool
	state  probe.State
	reason health.Reason
	// latest is how the latest attempt ended. Where the answer is UNKNOWN for
	// a reason of the gateway it is no part of it.
	latest probe.Reason
}

func verdictOf(a health.Answer) verdict {
	v := verdict{given: true, state: a.State, reason: a.Reason}
	if a.Reason == health.NoReason && a.Observation != nil {
		v.latest = a.Observation.Reason
	}
	return v
}

// word is the reason as clients see it.
func (v verdict) word() string {
	if !v.given {
		return ""
	}
	if v.reason != health.NoReason {
		return v.reason.String()
	}
	return v.latest.String()
}

// causeOf tells what has made one verdict follow another.
func causeOf(from, to verdict, started bool) sandboxv1.TransitionCause {
	switch {
	case !from.given && started:
		return sandboxv1.TransitionCause_TRANSITION_CAUSE_GATEWAY_STARTED
	case !from.given:
		return sandboxv1.TransitionCause_TRANSITION_CAUSE_CONFIGURATION
	}
	switch to.reason {
	case health.Stale:
		return sandboxv1.TransitionCause_TRANSITION_CAUSE_AGE
	case health.SandboxStopped, health.SandboxNotReady:
		return sandboxv1.TransitionCause_TRANSITION_CAUSE_LIFECYCLE
	case health.SupervisorDisconnected, health.RuntimeReplaced, health.NotObserved:
		return sandboxv1.TransitionCause_TRANSITION_CAUSE_SESSION
	case health.ConfigurationChanged:
		return sandboxv1.TransitionCause_TRANSITION_CAUSE_CONFIGURATION
	}
	if from.reason == health.SupervisorDisconnected {
		return sandboxv1.TransitionCause_TRANSITION_CAUSE_SESSION
	}
	return sandboxv1.TransitionCause_TRANSITION_CAUSE_REPORT
}

// whenOf tells when the answer became what it is at now: what was noticed late
// was not later for it. lost is when the session was lost.
func whenOf(a health.Answer, lost, now time.Time) time.Time {
	at := now
	switch a.Reason {
	case health.Stale:
		at = a.Expires()
	case health.SupervisorDisconnected:
		if !lost.IsZero() {
			at = lost
		}
	}
	if at.After(now) {
		return now
	}
	return at
}
