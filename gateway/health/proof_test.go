// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/probe"
)

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func TestInstant(t *testing.T) {
	// Acknowledgements 0, 3 and 8 are kept; 1, 2 and 4 came within 100 ms.
	p := NewProof(t0)
	for sequence, at := range map[uint64]int{1: 10, 2: 99} {
		p.Sending(sequence, t0.Add(ms(at)))
	}
	p.Sending(3, t0.Add(ms(1000)))
	p.Sending(4, t0.Add(ms(1050)))
	p.Sending(8, t0.Add(ms(5000)))
	received := t0.Add(ms(6000))
	for _, tc := range []struct {
		name     string
		seen     uint64
		sinceAck time.Duration
		age      time.Duration
		want     time.Duration // after t0
		ok       bool
	}{
		{"after the opening", 0, ms(400), ms(100), ms(300), true},
		{"at the acknowledgement's receipt", 8, ms(400), ms(400), ms(5000), true},
		{"less than the rounding after it", 8, ms(400) + 999*time.Microsecond, ms(400), ms(5000), true},
		{"just after it", 8, ms(401), ms(400), ms(5001), true},
		{"before it: proves nothing", 8, ms(399), ms(400), 0, false},
		{"an acknowledgement that an earlier one stands for", 4, ms(600), ms(100), ms(1500), true},
		{"the first ones", 2, ms(600), ms(100), ms(500), true},
		{"one that was never sent, between two", 7, ms(600), ms(100), ms(1500), true},
		{"one that was never sent, in the future", 99, ms(600), ms(100), ms(5500), true},
		{"claims to come from the future", 8, time.Hour, 0, ms(6000), true},
	} {
		at, ok := p.Instant(tc.seen, tc.sinceAck, tc.age, received)
		if ok != tc.ok || ok && !at.Equal(t0.Add(tc.want)) {
			t.Errorf("%s: %v, %t; want %v, %t", tc.name, at.Sub(t0), ok, tc.want, tc.ok)
		}
	}
}

func TestProofForgetsWhatNoReportNeeds(t *testing.T) {
	p := NewProof(t0)
	for i := range uint64(10000) {
		p.Sending(i+1, t0.Add(time.Duration(i)*ms(20)))
	}
	if n, most := len(p.list), 350+2; n > most {
		t.Errorf("%d acknowledgements are kept, at most %d are needed", n, most)
	}
	if _, ok := p.Instant(1, time.Hour, 0, t0.Add(time.Hour)); ok {
		t.Error("an acknowledgement of long ago still proves something")
	}
	last := t0.Add(9999 * ms(20))
	if at, ok := p.Instant(10000, ms(50), ms(50), last.Add(time.Second)); !ok || last.Sub(at) < 0 || last.Sub(at) >= ms(100) {
		t.Errorf("the newest acknowledgement: %v, %t; sent at %v", at, ok, last)
	}
}

// D3: what a link held back, or a frozen sandbox flushed, is not fresh for one
// read.
func TestALateReportIsNeverFresh(t *testing.T) {
	for _, tc := range []struct {
		name        string
		down, up    time.Duration // on the link
		frozen      time.Duration // before the report was made; the agent's clock stood still
		wantUnknown bool
	}{
		{"a good link", ms(20), ms(20), 0, false},
		{"held back for 14 s", ms(20), 14 * time.Second, 0, false},
		{"held back for 20 s", ms(20), 20 * time.Second, 0, true},
		{"its acknowledgement was held back for 20 s", 20 * time.Second, ms(20), 0, true},
		{"flushed after a freeze of 60 s", ms(20), ms(20), time.Minute, true},
		{"a bit of each", 5 * time.Second, 5 * time.Second, 5 * time.Second, true},
	} {
		c := NewCache()
		c.Connected(sandbox, session, 0, instance)
		p := NewProof(t0)
		// The agent receives the opening, observes at once, and says so 200 ms
		// later by its own clock.
		received := t0.Add(tc.down + tc.frozen + ms(200) + tc.up)
		o := fresh(t0)
		for _, at := range []*time.Time{&o.Latest, &o.Conclusive} {
			var ok bool
			if *at, ok = p.Instant(0, ms(200), ms(150), received); !ok {
				t.Fatalf("%s: nothing is proven", tc.name)
			}
		}
		c.Reported(sandbox, session, 1, []Observation{o}, only(service))
		want := NoReason
		if tc.wantUnknown {
			want = Stale
		}
		if a := Evaluate(Endpoint{ID: service, Revision: revision}, Ready, c.Slot(sandbox), received); a.Reason != want {
			t.Errorf("%s: the first read answered %v %q, want %q", tc.name, a.State, a.Reason, want)
		}
	}
}

// The bound is tight on a good link: in the steady state an observation is
// fresh until about 15 s after it was made.
func TestASteadyLinkLosesLittle(t *testing.T) {
	p := NewProof(t0)
	delay := ms(30)
	for i := range uint64(100) {
		round := t0.Add(time.Duration(i)*probe.Interval + time.Second)
		received := round.Add(ms(10) + delay)
		since, seen := round.Add(ms(10)).Sub(t0.Add(delay)), uint64(0)
		if i > 0 { // the last acknowledgement came one round ago
			since, seen = probe.Interval-2*delay, i
		}
		at, ok := p.Instant(seen, since, ms(10), received)
		if early := round.Sub(at); !ok || early < 0 || early > ms(100)+delay {
			t.Fatalf("round %d: %v too early, %t", i, early, ok)
		}
		p.Sending(i+1, received)
	}
}
