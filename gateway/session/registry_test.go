// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// claim is one step of a script: who wants the sandbox when, and what comes of
// it.
type claim struct {
	at         time.Duration
	session    uint64
	generation uint64
	instance   string
	want       Decision
}

func TestClaims(t *testing.T) {
	accept := Decision{Accept: true}
	for name, script := range map[string][]claim{
		"the newest session of one agent wins": {
			{0, 1, 1, "a", accept},
			{0, 2, 1, "a", Decision{Accept: true, Displaced: 1}},
			{time.Second, 3, 1, "a", Decision{Accept: true, Displaced: 2}},
		},
		"two agents evict each other once a minute": {
			{0, 1, 1, "a", accept},
			{0, 2, 1, "b", Decision{Accept: true, Displaced: 1, Conflict: true}},
			{time.Second, 3, 1, "a", Decision{Conflict: true, RetryAfter: 59 * time.Second}},
			{59999 * time.Millisecond, 4, 1, "a", Decision{Conflict: true, RetryAfter: time.Millisecond}},
			{time.Minute, 5, 1, "a", Decision{Accept: true, Displaced: 2, Conflict: true}},
			{61 * time.Second, 6, 1, "b", Decision{Conflict: true, RetryAfter: 59 * time.Second}},
		},
		"the holder itself may come back meanwhile": {
			{0, 1, 1, "a", accept},
			{0, 2, 1, "b", Decision{Accept: true, Displaced: 1, Conflict: true}},
			{1, 3, 1, "b", Decision{Accept: true, Displaced: 2}},
			{2, 4, 1, "a", Decision{Conflict: true, RetryAfter: time.Minute - 2}},
		},
		"a later generation wins, without conflict": {
			{0, 1, 1, "a", accept},
			{0, 2, 2, "b", Decision{Accept: true, Displaced: 1}},
			{0, 3, 1, "a", Decision{Outdated: true}},
			{0, 4, 2, "c", Decision{Accept: true, Displaced: 2, Conflict: true}},
			{0, 5, 3, "d", Decision{Accept: true, Displaced: 4}},
		},
	} {
		r := NewRegistry()
		for i, c := range script {
			if got := r.Decide("s", c.generation, c.instance, t0.Add(c.at)); got != c.want {
				t.Errorf("%s, step %d: would be %+v, want %+v", name, i, got, c.want)
			}
			before := r.Holder("s")
			if got := r.Claim("s", c.session, c.generation, c.instance, t0.Add(c.at)); got != c.want {
				t.Errorf("%s, step %d: %+v, want %+v", name, i, got, c.want)
			}
			holder := c.session
			if !c.want.Accept {
				holder = before
			}
			if r.Holder("s") != holder || r.Len() != 1 || r.Holder("other") != 0 {
				t.Errorf("%s, step %d: held by %d, want %d", name, i, r.Holder("s"), holder)
			}
		}
	}
}

func TestOnlyTheHolderReleases(t *testing.T) {
	r := NewRegistry()
	r.Claim("s", 1, 1, "a", t0)
	r.Claim("s", 2, 1, "a", t0)
	if r.Release("s", 1) || r.Release("s", 0) || r.Release("other", 2) || r.Holder("s") != 2 {
		t.Fatalf("held by %d after the end of others", r.Holder("s"))
	}
	if !r.Release("s", 2) || r.Holder("s") != 0 || r.Release("s", 2) || r.Len() != 0 {
		t.Fatalf("held by %d after its end", r.Holder("s"))
	}
}

// An agent that comes and goes evicts another one once a minute too, not each
// time that it comes.
func TestEvictionsOutliveSessions(t *testing.T) {
	r := NewRegistry()
	r.Claim("s", 1, 1, "steady", t0)
	r.Claim("s", 2, 1, "crashing", t0)
	r.Release("s", 2)
	if d := r.Claim("s", 3, 1, "steady", t0.Add(time.Second)); !d.Accept || d.Conflict {
		t.Fatalf("nobody holds the sandbox, and yet: %+v", d)
	}
	if d := r.Claim("s", 4, 1, "crashing", t0.Add(2*time.Second)); d.Accept || d.RetryAfter != 58*time.Second {
		t.Fatalf("the second eviction within a minute: %+v", d)
	}
}

func TestEvictionsAreForgotten(t *testing.T) {
	r := NewRegistry()
	now := t0
	for i := range uint64(10000) {
		id := fmt.Sprint(i)
		r.Claim(id, 2*i+1, 1, "a", now)
		r.Claim(id, 2*i+2, 1, "b", now)
		now = now.Add(time.Second)
	}
	if n := len(r.evicted); n > 300 {
		t.Errorf("%d evictions are remembered, 60 matter", n)
	}
}

// model says the rules as plainly as possible: it keeps everything that ever
// happened.
type model struct {
	sessions  map[uint64]modelSession
	open      []uint64 // in the order of their claims
	evictions []time.Time
}

type modelSession struct {
	generation uint64
	instance   string
}

func (m *model) holder() uint64 {
	if len(m.open) == 0 {
		return 0
	}
	return m.open[len(m.open)-1]
}

func (m *model) claim(id, generation uint64, instance string, now time.Time) (accept bool, displaced uint64) {
	h := m.sessions[m.holder()]
	if m.holder() != 0 {
		switch {
		case generation < h.generation:
			return false, 0
		case generation == h.generation && instance != h.instance:
			if slices.ContainsFunc(m.evictions, func(at time.Time) bool { return now.Sub(at) < EvictionInterval }) {
				return false, 0
			}
			m.evictions = append(m.evictions, now)
		}
	}
	displaced = m.holder()
	m.open = nil
	m.sessions[id] = modelSession{generation, instance}
	m.open = append(m.open, id)
	return true, displaced
}

func (m *model) release(id uint64) bool {
	if m.holder() != id || id == 0 {
		return false
	}
	m.open = nil
	return true
}

// Random claims and releases of one sandbox, late and double ones among them,
// against the model; another sandbox beside it is never touched.
func TestRegistryAgainstAModel(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 0))
		r, m := NewRegistry(), &model{sessions: map[uint64]modelSession{}}
		r.Claim("other", 1000000, 1, "x", t0)
		now := t0
		for id := uint64(1); id < 80; id++ {
			now = now.Add(time.Duration(rng.Int64N(int64(30 * time.Second))))
			generation, instance := uint64(1+rng.IntN(2)), string(rune('a'+rng.IntN(3)))
			accept, displaced := m.claim(id, generation, instance, now)
			if d := r.Claim("s", id, generation, instance, now); d.Accept != accept || d.Displaced != displaced {
				t.Fatalf("seed %d: session %d got %+v, want accepted %t, displaced %d", seed, id, d, accept, displaced)
			}
			for range rng.IntN(3) {
				old := uint64(rng.IntN(int(id) + 2))
				if want := m.release(old); r.Release("s", old) != want {
					t.Fatalf("seed %d: the end of %d released %t, want %t", seed, old, !want, want)
				}
			}
			if r.Holder("s") != m.holder() || r.Holder("other") != 1000000 {
				t.Fatalf("seed %d: held by %d, want %d", seed, r.Holder("s"), m.holder())
			}
		}
	}
}
