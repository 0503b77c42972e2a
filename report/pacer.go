// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package report

import "time"

// Pacer is the pure core of Publish: it decides when the reports of one
// session are sent, and which acknowledgement each of them names. Its owner
// serialises the calls, whose instants never go back.
type Pacer struct {
	acks     *acks
	sequence uint64
	unacked  uint64 // sequence of the report under way; 0 if none
	stopping bool   // the report under way says that the agent leaves
	pending  bool
	sent     time.Time // when the report under way was
	named    ack       // what it names
	oldest   time.Time // when the oldest of its fresh attempts began
	again    bool
	asked    time.Time // oldest, of the report for which again was set last
}

// weakBy is by how much the proof of a report has to be improvable for Again.
const weakBy = time.Second

// NewPacer returns the pacer of a session whose first message came at the
// given instant. It has a report to send: whatever was said in an earlier
// session may be lost.
func NewPacer(opened time.Time) *Pacer { return &Pacer{acks: newAcks(opened), pending: true} }

// Ready takes note that the newest snapshot should be sent.
func (p *Pacer) Ready() { p.pending = true }

// Waiting reports whether a report is not acknowledged yet.
func (p *Pacer) Waiting() bool { return p.unacked != 0 }

// Acked takes note of an acknowledgement. It reports whether there is nothing
// more to say.
func (p *Pacer) Acked(seq uint64, now time.Time) (done bool) {
	if seq == 0 || seq > p.sequence {
		return false // never sent
	}
	trip := now.Sub(p.sent)
	p.acks.received(seq, now, trip)
	if seq != p.unacked {
		return false
	}
	p.unacked = 0
	if p.named.trip-trip >= weakBy && p.oldest.After(p.asked) {
		p.again, p.asked = true, p.oldest
	}
	return p.stopping
}

// Again reports, once, whether observing again now would prove more than the
// report that was just acknowledged. That named an acknowledgement which had
// been under way for long, in a stalled network or in the buffers of a process
// that was frozen: as far as the gateway can tell, its observations may be older
// by as much. The acknowledgement that has come now was quick. Where looking
// again did not renew the oldest observation, because that attempt is in flight
// or could not tell, it is not asked for again: each answer would ask anew.
func (p *Pacer) Again() bool {
	again := p.again
	p.again = false
	return again
}

// Next returns the report to send now, if any, of the newest snapshot.
func (p *Pacer) Next(newest func() Snapshot, now time.Time) (Report, bool) {
	if !p.pending || p.unacked != 0 {
		return Report{}, false
	}
	snap := newest()
	oldest := oldestFresh(snap, now)
	seen := p.acks.before(oldest)
	p.sequence++
	p.unacked, p.pending, p.stopping, p.sent, p.named, p.oldest = p.sequence, false, snap.Stop != nil, now, seen, oldest
	return Report{
		Sequence: p.sequence,
		AckSeen:  seen.sequence,
		SinceAck: now.Sub(seen.at),
		Made:     now,
		Snapshot: snap,
	}, true
}
