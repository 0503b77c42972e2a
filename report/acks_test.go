// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/probe"
)

// The named acknowledgement is the last one from before the oldest fresh
// observation; what is stale anyway does not count.
func TestWhichAcknowledgementIsNamed(t *testing.T) {
	at := func(seconds float64) time.Time { return t0.Add(time.Duration(seconds * float64(time.Second))) }
	// Acknowledgement n came at n*5 s; now is 30 s.
	now := at(30)
	received := func() *acks {
		a := newAcks(t0)
		for i := 1; i <= 5; i++ {
			a.received(uint64(i), at(float64(i*5)), 0)
		}
		return a
	}
	lateThenFailed := observed(probe.Inconclusive, at(29), time.Second/10)
	lateThenFailed.Conclusive, lateThenFailed.ConclusiveStart = at(17), at(16.5)
	staleVerdict := lateThenFailed
	staleVerdict.Conclusive, staleVerdict.ConclusiveStart = at(14), at(13.5)
	staleVerdict.Latest.Start, staleVerdict.Observed = at(24), at(24.5)
	for _, tc := range []struct {
		name     string
		verdicts []probe.Verdict
		want     uint64
	}{
		{"no services", nil, 5},
		{"one that was not tried yet", []probe.Verdict{probe.NewJudge(t0).Verdict()}, 5},
		{"one after the last", []probe.Verdict{passed(at(26), time.Second/10)}, 5},
		{"one that began before the last and ended after it", []probe.Verdict{passed(at(24.9), time.Second/2)}, 4},
		{"the older of two", []probe.Verdict{passed(at(26), time.Second/10), passed(at(21), time.Second/10)}, 4},
		{"the same the other way round", []probe.Verdict{passed(at(21), time.Second/10), passed(at(26), time.Second/10)}, 4},
		{"exactly at an acknowledgement", []probe.Verdict{passed(at(20), time.Second/10)}, 4},
		{"a stale one beside a fresh one", []probe.Verdict{passed(at(2), time.Second/10), passed(at(26), time.Second/10)}, 5},
		{"a fresh verdict behind an inconclusive attempt", []probe.Verdict{lateThenFailed}, 3},
		{"a stale verdict behind an inconclusive attempt", []probe.Verdict{staleVerdict}, 4},
		{"only inconclusive", []probe.Verdict{observed(probe.Inconclusive, at(19), time.Second/10)}, 3},
	} {
		s := Snapshot{}
		for i, v := range tc.verdicts {
			s.Entries = append(s.Entries, Entry{Service: service("s", uint64(i)), Verdict: v})
		}
		if got := received().before(oldestFresh(s, now)); got.sequence != tc.want || !got.at.Equal(at(float64(tc.want*5))) {
			t.Errorf("%s: acknowledgement %d of %v, want %d", tc.name, got.sequence, got.at.Sub(t0), tc.want)
		}
	}
}

// What is older than the session is older than its opening: nothing proves it.
func TestAnObservationFromBeforeTheSession(t *testing.T) {
	a := newAcks(t0)
	s := Snapshot{Entries: []Entry{{Verdict: passed(t0.Add(-time.Second), time.Second/10)}}}
	if got := a.before(oldestFresh(s, t0.Add(time.Second))); got.sequence != 0 || !got.at.Equal(t0) {
		t.Errorf("acknowledgement %+v, want the opening", got)
	}
}

// Against a model that forgets nothing: whatever is fresh finds the
// acknowledgement that it would have found there, and the list stays short.
func TestForgottenAcknowledgementsAreNotMissed(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 0))
		a, all := newAcks(t0), []ack{{at: t0}}
		now := t0
		for i := range uint64(60) {
			now = now.Add(time.Duration(rng.Int64N(int64(10 * time.Second))))
			a.received(i+1, now, 0)
			all = append(all, ack{i + 1, now, 0})
			now = now.Add(time.Duration(rng.Int64N(int64(2 * time.Second))))
			start := now.Add(-time.Duration(rng.Int64N(int64(16 * time.Second))))
			v := passed(start, time.Duration(rng.Int64N(int64(time.Second))))
			if v.Observed.After(now) || now.Sub(v.Observed) >= probe.StaleAfter {
				continue
			}
			got := a.before(oldestFresh(Snapshot{Entries: []Entry{{Verdict: v}}}, now))
			want := all[0]
			for _, k := range all {
				if !k.at.After(start) {
					want = k
				}
			}
			if got != want {
				t.Fatalf("seed %d: observed %v, began %v: named %+v, want %+v", seed, v.Observed.Sub(t0), start.Sub(t0), got, want)
			}
		}
		if seed == 0 {
			for i := range uint64(1000) {
				a.received(i, now.Add(time.Duration(i)*5*time.Second), 0)
			}
			if n := len(a.list); n > 5 {
				t.Errorf("%d acknowledgements are remembered", n)
			}
		}
	}
}
