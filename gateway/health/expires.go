// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"time"

	"github.com/sandbox-agent/sandbox-agent/probe"
)

// Expires returns the instant from which on the answer is Stale, unless
// something is reported: ahead of an answer that rests on a fresh observation,
// behind one that is Stale already. It is zero where age does not matter.
func (a Answer) Expires() time.Time {
	if a.Observation == nil || a.Reason != NoReason && a.Reason != Inconclusive && a.Reason != Stale {
		return time.Time{}
	}
	return a.Observation.freshness().Add(probe.StaleAfter)
}

// PhaseExpires returns the instant from which on PhaseOf tells another phase
// than at now, with nothing but time having passed; zero if that never happens.
func PhaseExpires(l Lifecycle, slot Slot, started, now time.Time) time.Time {
	slot = slot.Of(l.Generation)
	if slot.Live || PhaseOf(l, slot, started, now) != Ready {
		return time.Time{}
	}
	return later(started, slot.Lost).Add(Grace)
}
