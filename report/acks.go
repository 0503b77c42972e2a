// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"time"

	"github.com/sandbox-agent/sandbox-agent/probe"
)

// ack is one acknowledgement and when it came.
type ack struct {
	sequence uint64
	at       time.Time
}

// acks remembers the acknowledgements of one session that a report may still
// have to name.
type acks struct {
	list []ack // oldest first, never empty
}

// newAcks returns the acks of a session that was opened at the given instant:
// its opening counts as acknowledgement 0.
func newAcks(opened time.Time) *acks { return &acks{list: []ack{{0, opened}}} }

// received takes note of an acknowledgement and forgets those that no fresh
// observation can need: of all that are older than the stale age, only the
// newest may be the last one before a fresh observation.
func (a *acks) received(sequence uint64, now time.Time) {
	a.list = append(a.list, ack{sequence, now})
	drop := 0
	for drop+1 < len(a.list) && now.Sub(a.list[drop+1].at) > probe.StaleAfter {
		drop++
	}
	a.list = append(a.list[:0], a.list[drop:]...)
}

// before returns the last acknowledgement that had come at the given instant,
// or the oldest one remembered.
func (a *acks) before(t time.Time) ack {
	for i := len(a.list) - 1; i > 0; i-- {
		if !a.list[i].at.After(t) {
			return a.list[i]
		}
	}
	return a.list[0]
}

// oldestFresh returns when the oldest attempt began that the snapshot's fresh
// verdicts rest on; now if there is none.
func oldestFresh(s Snapshot, now time.Time) time.Time {
	oldest := now
	for _, e := range s.Entries {
		v := e.Verdict
		began, observed := v.ConclusiveStart, v.Conclusive
		if observed.IsZero() {
			began, observed = v.Latest.Start, v.Observed
		}
		if observed.IsZero() || now.Sub(observed) >= probe.StaleAfter {
			continue
		}
		if began.Before(oldest) {
			oldest = began
		}
	}
	return oldest
}
