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
	trip     time.Duration // since its report was sent: it was under way for at most that long
}

// acks remembers the acknowledgements of one session that a report may still
// have to name.
type acks struct {
	list []ack // oldest first, never empty
}

// newAcks returns the acks of a session that was opened at the given instant:
// its opening counts as acknowledgement 0.
func newAcks(opened time.Time) *acks { return &acks{list: []ack{{at: opened}}} }

// received takes note of an acknowledgement and forgets those that no fresh
// observation can need: of all that are older than the attempt of the oldest
// fresh observation can be, only the newest may be the last one before it.
func (a *acks) received(sequence uint64, now time.Time, trip time.Duration) {
	a.list = append(a.list, ack{sequence, now, trip})
	drop := 0
	for drop+1 < len(a.list) && now.Sub(a.list[drop+1].at) > probe.StaleAfter+probe.AttemptTimeout {
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

// oldestFresh returns when the oldest attempt began that anything fresh in the
// snapshot rests on; now if there is none.
func oldestFresh(s Snapshot, now time.Time) time.Time {
	oldest := now
	fresh := func(began, observed time.Time) {
		if !observed.IsZero() && now.Sub(observed) < probe.StaleAfter && began.Before(oldest) {
			oldest = began
		}
	}
	for _, e := range s.Entries {
		fresh(e.Verdict.ConclusiveStart, e.Verdict.Conclusive)
		fresh(e.Verdict.Latest.Start, e.Verdict.Observed)
	}
	return oldest
}
