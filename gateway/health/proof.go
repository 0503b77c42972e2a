// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// sent is an acknowledgement and when the gateway sent it.
type sent struct {
	sequence uint64
	at       time.Time
}

// proofAge is how long a sent acknowledgement may serve as proof: of two that
// follow each other the agent names the earlier until whatever it observed
// before the later is stale. They are at most 15 s apart (a report every 5 s,
// each acknowledged within 10 s), an observation is fresh for 15 s, and it may
// have taken 1 s. Later than that the bound would be stale in any case.
const proofAge = 35 * time.Second

// proofGap is the coarseness of the proofs that are kept: with
// acknowledgements that follow each other faster, the earlier one serves for
// both, which errs to the safe side by at most this much.
const proofGap = 100 * time.Millisecond

// Proof derives instants on the gateway's clock from what an agent says of its
// own: an agent that had received acknowledgement k before it observed cannot
// have observed before the gateway sent k. It belongs to one session and one
// goroutine.
type Proof struct {
	list []sent // oldest first, never empty
}

// NewProof returns the proof of a session whose first message, which counts as
// acknowledgement 0, is sent at the given instant.
func NewProof(opened time.Time) *Proof { return &Proof{list: []sent{{0, opened}}} }

// Sending takes note that an acknowledgement is about to be sent.
func (p *Proof) Sending(sequence uint64, now time.Time) {
	drop := 0
	for drop+1 < len(p.list) && now.Sub(p.list[drop].at) > proofAge {
		drop++
	}
	p.list = append(p.list[:0], p.list[drop:]...)
	if now.Sub(p.list[len(p.list)-1].at) < proofGap {
		return
	}
	p.list = append(p.list, sent{sequence, now})
}

// Instant returns an instant that is not later than the one that the agent
// means by "age before this report was made", and not later than received.
//
// The report names acknowledgement seen and says that it came sinceAck before
// the report was made. The event was sinceAck-age after that receipt, on a
// clock that may have stood still meanwhile but does not run ahead, and the
// receipt was not before the sending: the sum of the two is the bound. It
// fails for an event before the receipt, of which the acknowledgement proves
// nothing, and for an acknowledgement that is not known (any more).
//
// On the wire an age is a whole number of milliseconds, rounded up, but never
// above a sinceAck that is longer than the age (report/wire).
func (p *Proof) Instant(seen uint64, sinceAck, age time.Duration, received time.Time) (time.Time, bool) {
	after := sinceAck - age
	if after < 0 || seen < p.list[0].sequence {
		return time.Time{}, false
	}
	if after < time.Millisecond {
		after = 0 // the age may have been rounded down to sinceAck
	}
	base := p.list[0].at
	for i := len(p.list) - 1; i >= 0; i-- {
		if p.list[i].sequence <= seen {
			base = p.list[i].at
			break
		}
	}
	at := base.Add(after)
	if at.After(received) {
		at = received
	}
	return at, true
}
