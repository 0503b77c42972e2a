// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/probe"
	"github.com/sandbox-agent/sandbox-agent/report"
	"github.com/sandbox-agent/sandbox-agent/report/wire"
)

// suspended is a while in which the agent's clock stood still.
type suspended struct{ from, until time.Duration }

// machine is an agent's sandbox: real time, which nobody in it sees, a clock
// that stops whenever the sandbox does, and the core of the agent's publishing.
type machine struct {
	rng      *rand.Rand
	real     time.Duration
	stops    []suspended
	freezes  bool
	longest  time.Duration // of a delay on the link
	acks     []delivery    // under way to the agent, in order
	pacer    *report.Pacer // nil until the session's opening was received
	lastUp   time.Duration // arrival of the last report at the gateway
	lastDown time.Duration // arrival of the last acknowledgement at the agent
}

type delivery struct {
	sequence uint64
	at       time.Duration
}

// clock returns the agent's clock.
func (m *machine) clock() time.Duration {
	c := m.real
	for _, s := range m.stops {
		c -= s.until - s.from
	}
	return c
}

// realTime returns the first real instant at which the agent's clock shows c.
func (m *machine) realTime(c time.Duration) time.Duration {
	at := c
	for _, s := range m.stops {
		if at > s.from {
			at += s.until - s.from
		}
	}
	return at
}

// run lets the agent live for d, in which it receives what arrives, then
// perhaps stop.
func (m *machine) run(d time.Duration) {
	for len(m.acks) > 0 && m.acks[0].at <= m.real+d {
		at := t0.Add(m.clock() + max(0, m.acks[0].at-m.real))
		if m.pacer == nil {
			m.pacer = report.NewPacer(at)
		} else {
			m.pacer.Acked(m.acks[0].sequence, at)
		}
		m.acks = m.acks[1:]
	}
	m.real += d
	if m.freezes && m.rng.IntN(6) == 0 {
		stop := time.Duration(m.rng.Int64N(int64(25 * time.Second)))
		m.stops = append(m.stops, suspended{m.real, m.real + stop})
		m.real += stop
	}
}

func (m *machine) chance(most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	return time.Duration(m.rng.Int64N(int64(most)))
}

// deliver puts an acknowledgement, sent at real instant sent, on the link.
func (m *machine) deliver(sequence uint64, sent time.Duration) {
	m.lastDown = max(m.lastDown, sent+m.chance(m.longest))
	m.acks = append(m.acks, delivery{sequence, m.lastDown})
}

// attempt makes one attempt, and returns what a judge would say of it.
func (m *machine) attempt() probe.Verdict {
	start := m.clock()
	m.run(m.chance([]time.Duration{2 * time.Millisecond, 1100 * time.Millisecond}[m.rng.IntN(2)]))
	a := probe.Attempt{Outcome: probe.Pass, Start: t0.Add(start), End: t0.Add(m.clock())}
	return probe.Verdict{
		State: probe.Healthy, Latest: a, Observed: a.Observed(),
		Conclusive: a.Observed(), ConclusiveStart: a.Start,
	}
}

// snapshot holds one service for each verdict.
func snapshot(verdicts []probe.Verdict) report.Snapshot {
	s := report.Snapshot{}
	for i, v := range verdicts {
		s.Entries = append(s.Entries, report.Entry{Service: probe.Service{Revision: uint64(i + 1)}, Verdict: v})
	}
	return s
}

// session plays rounds against a gateway's Proof and hands what it derives to
// check: the true and the derived instant, whether it is fresh for the agent,
// and whether it is proven at all.
func (m *machine) session(rounds int, check func(truth, derived time.Duration, fresh, ok bool)) {
	gateway := NewProof(t0)
	m.deliver(0, 0)
	for m.pacer == nil {
		m.run(10 * time.Millisecond)
	}
	verdicts := make([]probe.Verdict, 1+m.rng.IntN(3))
	for i := range verdicts { // some of them older than the session
		if verdicts[i] = m.attempt(); m.rng.IntN(2) == 0 {
			verdicts[i].Observed = verdicts[i].Observed.Add(-20 * time.Second)
			verdicts[i].Latest.Start = verdicts[i].Latest.Start.Add(-20 * time.Second)
		}
	}
	for range rounds {
		switch m.rng.IntN(3) { // often just after an acknowledgement
		case 0:
			m.run(m.chance(7 * time.Second))
		case 1:
			m.run(m.chance(2 * time.Millisecond))
		default:
			if len(m.acks) > 0 {
				m.run(max(0, m.acks[0].at-m.real))
			}
		}
		for i := range verdicts {
			if m.rng.IntN(4) > 0 {
				verdicts[i] = m.attempt()
			}
		}
		m.run(m.chance(300 * time.Millisecond))
		m.pacer.Ready()
		made, ok := m.pacer.Next(func() report.Snapshot { return snapshot(verdicts) }, t0.Add(m.clock()))
		if !ok {
			continue // one report at a time
		}
		r, err := wire.Decode(wire.Encode(made))
		if err != nil {
			panic(err)
		}
		m.lastUp = max(m.lastUp, m.real+m.chance(m.longest))
		for i, o := range r.Observations {
			at, ok := gateway.Instant(r.AckSeen, r.SinceAck, o.Age, t0.Add(m.lastUp))
			observed := verdicts[i].Observed
			check(m.realTime(observed.Sub(t0)), at.Sub(t0), made.Made.Sub(observed) < probe.StaleAfter, ok)
		}
		gateway.Sending(r.Sequence, t0.Add(m.lastUp))
		m.deliver(r.Sequence, m.lastUp)
	}
}

// Whatever the link and the agent's clock do, the derived instant is never
// later than the true one.
func TestProofNeverErrsToTheYoungSide(t *testing.T) {
	proven := 0
	for seed := range uint64(3000) {
		m := &machine{rng: rand.New(rand.NewPCG(seed, 1)), freezes: seed%2 == 0, longest: time.Duration(seed%7) * 2 * time.Second}
		m.session(12, func(truth, derived time.Duration, _, ok bool) {
			if !ok {
				return
			}
			proven++
			if derived > truth {
				t.Fatalf("seed %d: derived %v, which is %v after the truth", seed, derived, derived-truth)
			}
		})
	}
	if proven < 10000 {
		t.Errorf("only %d observations were proven: the test tests little", proven)
	}
}

// On a good link with a running agent everything fresh is proven, and at most
// 100 ms and the acknowledgement's delay are lost.
func TestProofIsTightOnAGoodLink(t *testing.T) {
	const delay = 40 * time.Millisecond
	for seed := range uint64(1000) {
		m := &machine{rng: rand.New(rand.NewPCG(seed, 2)), longest: delay}
		m.session(12, func(truth, derived time.Duration, fresh, ok bool) {
			switch {
			case fresh && truth > 2*delay && !ok:
				t.Fatalf("seed %d: an observation of %v is not proven", seed, truth)
			case ok && truth-derived > 100*time.Millisecond+delay+4*time.Millisecond:
				t.Fatalf("seed %d: the bound of %v is %v too early", seed, truth, truth-derived)
			}
		})
	}
}
