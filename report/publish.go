// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"errors"
	"time"
)

// AckTimeout is how long a report may stay unacknowledged before the agent
// gives its session up.
const AckTimeout = 10 * time.Second

// ErrNoAck is returned by Publish when a report was not acknowledged within
// AckTimeout.
var ErrNoAck = errors.New("report: no acknowledgement within 10 s")

// Report is one snapshot as it is sent: what the wire needs beside it.
type Report struct {
	Sequence uint64 // of this report in its session, from 1
	AckSeen  uint64 // acknowledgement before the oldest fresh observation
	SinceAck time.Duration
	Made     time.Time // ages are relative to it
	Snapshot Snapshot
}

// Transport carries the reports of one session.
type Transport interface {
	// Send hands one report to the session. It may block while the session
	// does, and fails when that has ended.
	Send(Report) error
	// Acks carries the sequence of each acknowledgement as it comes.
	Acks() <-chan uint64
}

// Publish sends the tracker's newest snapshot at once, then whenever it is
// ready and the previous report has been acknowledged. opened is when the
// session's first message came. observe is called when observing again would
// prove more than what was reported (Pacer.Again); it must not block. Publish
// returns nil when a report with Stop was acknowledged, otherwise why it ended:
// the context's cause, Send's error, or ErrNoAck.
func Publish(ctx context.Context, t Transport, tracker *Tracker, opened time.Time, observe func()) error {
	p := NewPacer(opened)
	timeout := time.NewTimer(AckTimeout)
	timeout.Stop()
	defer timeout.Stop()
	for {
		if r, ok := p.Next(tracker.Snapshot, time.Now()); ok {
			timeout.Reset(AckTimeout)
			if err := t.Send(r); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tracker.Ready():
			p.Ready()
		case seq := <-t.Acks():
			if p.Acked(seq, time.Now()) {
				return nil
			}
			if !p.Waiting() {
				timeout.Stop()
			}
			if p.Again() {
				observe()
			}
		case <-timeout.C:
			return ErrNoAck
		}
	}
}
