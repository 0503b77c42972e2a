// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"
	"time"
)

// Whoever is told of a change sees it, and may read and write the cache.
func TestOnChange(t *testing.T) {
	c := NewCache()
	var heard int
	var last Slot
	c.OnChange(func(id string) {
		if id != sandbox {
			t.Errorf("a change of %q", id)
		}
		heard++
		last = c.Slot(id)
	})
	for _, step := range []struct {
		name string
		do   func()
		want int
		live bool
		seen int // observations
	}{
		{"connected", func() { c.Connected(sandbox, session, 0, instance) }, 1, true, 0},
		{"reported", func() { c.Reported(sandbox, session, 1, []Observation{fresh(t0)}, only(service)) }, 1, true, 1},
		{"reported by another", func() { c.Reported(sandbox, session+1, 1, nil, nil) }, 0, true, 1},
		{"an older report", func() { c.Reported(sandbox, session, 0, nil, nil) }, 0, true, 1},
		{"disconnected", func() { c.Disconnected(sandbox, session, t0.Add(time.Second)) }, 1, false, 1},
		{"forgotten", func() { c.Forget(sandbox) }, 1, false, 0},
		{"disconnected, once it is forgotten", func() { c.Disconnected(sandbox, session, t0) }, 0, false, 0},
	} {
		heard = 0
		step.do()
		if heard != step.want || last.Live != step.live || len(last.observed) != step.seen {
			t.Errorf("%s: heard %d, saw %+v", step.name, heard, last)
		}
	}
}

// When an answer and a phase change by age alone. The book of gateway/watch
// holds these instants to Evaluate and PhaseOf, at random.
func TestExpires(t *testing.T) {
	at := func(w world) time.Time {
		slot := w.slot(t0)
		return Evaluate(Endpoint{ID: service, Revision: revision}, w.phase, slot, t0).Expires()
	}
	w := good()
	w.age = 4 * time.Second
	if got := at(w); got != t0.Add(11*time.Second) {
		t.Errorf("of a fresh answer: %v", got)
	}
	for _, f := range faults {
		w := good()
		f.apply(&w)
		got, want := at(w), time.Time{}
		switch f.reason {
		case Stale:
			want = t0
		case Inconclusive:
			want = t0.Add(15 * time.Second)
		}
		if got != want {
			t.Errorf("%v: %v, want %v", f.reason, got, want)
		}
	}
	l := Lifecycle{Asked: Ready, Connected: true}
	for name, tt := range map[string]struct {
		slot Slot
		l    Lifecycle
		want time.Time
	}{
		"live":                        {Slot{Live: true}, l, time.Time{}},
		"lost":                        {Slot{Lost: t0.Add(-5 * time.Second)}, l, t0.Add(10 * time.Second)},
		"lost to an earlier gateway":  {Slot{Lost: t0.Add(-Grace)}, l, t0.Add(-8 * time.Second).Add(Grace)},
		"lost with a gateway":         {Slot{}, l, t0.Add(-8 * time.Second).Add(Grace)},
		"never there":                 {Slot{}, Lifecycle{Asked: Ready}, time.Time{}},
		"stopped":                     {Slot{Lost: t0}, Lifecycle{Asked: Stopped, Connected: true}, time.Time{}},
		"lost by an older generation": {Slot{Lost: t0}, Lifecycle{Generation: 1, Asked: Ready}, time.Time{}},
	} {
		if got := PhaseExpires(tt.l, tt.slot, t0.Add(-8*time.Second), t0); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
	if got := PhaseExpires(l, Slot{Lost: t0.Add(-Grace)}, t0.Add(-time.Hour), t0); !got.IsZero() {
		t.Errorf("lost long ago: %v", got)
	}
}
