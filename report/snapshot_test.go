// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/probe"
)

// signalled reports whether the tracker asks for a report, once.
func signalled(t *Tracker) bool {
	select {
	case <-t.Ready():
		return true
	default:
		return false
	}
}

func names(s Snapshot) []string {
	var out []string
	for _, e := range s.Entries {
		out = append(out, e.Service.Name)
	}
	return out
}

// step is one event and whether it is worth a report.
type step struct {
	name   string
	do     func(*Tracker)
	signal bool
	grows  bool // the generation
}

func TestTrackerSignals(t *testing.T) {
	web, api := service("web", 1), service("api", 2)
	tr := NewTracker()
	if signalled(tr) || tr.Snapshot().Generation != 0 {
		t.Error("a new tracker has something to say")
	}
	for _, s := range []step{
		{"a list", func(tr *Tracker) { tr.Services([]probe.Service{web, api}, t0) }, true, true},
		{"the same list", func(tr *Tracker) { tr.Services([]probe.Service{web, api}, t0) }, true, true},
		{"the first observation", func(tr *Tracker) { tr.Observed(web, observed(probe.Fail, t0, 1), false) }, true, true},
		{"an observation that changes nothing", func(tr *Tracker) { tr.Observed(web, passed(t0, 1), false) }, false, true},
		{"one that changes the state", func(tr *Tracker) { tr.Observed(web, passed(t0, 1), true) }, true, true},
		{"one of a service that is gone", func(tr *Tracker) { tr.Observed(service("old", 1), passed(t0, 1), true) }, false, false},
		{"one of an earlier configuration", func(tr *Tracker) { tr.Observed(service("web", 9), passed(t0, 1), true) }, false, false},
		{"the end of a round", (*Tracker).RoundEnded, true, false},
		{"an empty list", func(tr *Tracker) { tr.Services(nil, t0) }, true, true}, // T11
		{"the stop", func(tr *Tracker) { tr.Stop(Stop{MainExited: true, ExitCode: 3}) }, true, true},
		{"a list after the stop", func(tr *Tracker) { tr.Services([]probe.Service{web}, t0) }, true, true},
	} {
		before := tr.Snapshot().Generation
		s.do(tr)
		if got := signalled(tr); got != s.signal {
			t.Errorf("%s: signalled %t, want %t", s.name, got, s.signal)
		}
		if grew := tr.Snapshot().Generation > before; grew != s.grows {
			t.Errorf("%s: generation %d after %d", s.name, tr.Snapshot().Generation, before)
		}
	}
	if s := tr.Snapshot(); s.Stop == nil || *s.Stop != (Stop{true, 3}) {
		t.Errorf("the stop is forgotten: %+v", s.Stop)
	}
}

func TestSignalsAreLevels(t *testing.T) {
	tr := NewTracker()
	for range 100 {
		tr.RoundEnded()
	}
	if !signalled(tr) || signalled(tr) {
		t.Error("a hundred signals are not one")
	}
}

func TestTheListIsSortedAndKeepsVerdicts(t *testing.T) {
	web, api, unnamed := service("web", 1), service("api", 2), service("", 3)
	tr := NewTracker()
	tr.Services([]probe.Service{web, api, unnamed}, t0)
	if got := names(tr.Snapshot()); !slices.Equal(got, []string{"", "api", "web"}) {
		t.Fatalf("order %q", got)
	}
	for _, s := range []probe.Service{web, api, unnamed} {
		tr.Observed(s, passed(t0, time.Second), true)
	}
	changed := service("api", 9)
	changed.Target.Path = "/readyz"
	tr.Services([]probe.Service{service("new", 4), changed, web}, t0.Add(time.Minute))
	s := tr.Snapshot()
	if got := names(s); !slices.Equal(got, []string{"api", "new", "web"}) {
		t.Fatalf("order %q", got)
	}
	for i, want := range []probe.State{probe.Unknown, probe.Unknown, probe.Healthy} {
		if got := s.Entries[i].Verdict.State; got != want {
			t.Errorf("%q: %v, want %v", s.Entries[i].Service.Name, got, want)
		}
	}
	if s.Entries[0].Service != changed || !s.Entries[0].Verdict.Observed.IsZero() || !s.Entries[0].Verdict.Since.Equal(t0.Add(time.Minute)) {
		t.Errorf("the changed service did not start again: %+v", s.Entries[0])
	}
}

func TestASnapshotIsImmutable(t *testing.T) {
	web := service("web", 1)
	tr := NewTracker()
	tr.Services([]probe.Service{web}, t0)
	first := tr.Snapshot()
	tr.Observed(web, passed(t0, 1), true)
	second := tr.Snapshot()
	tr.Observed(web, observed(probe.Fail, t0, 1), true)
	tr.Services(nil, t0)
	if !first.Entries[0].Verdict.Observed.IsZero() || second.Entries[0].Verdict.Latest.Outcome != probe.Pass {
		t.Errorf("snapshots that were handed out have changed: %+v %+v", first, second)
	}
}

// A round of many services that nobody looks at in between costs one copy, not
// one a service.
func TestARoundCopiesOnce(t *testing.T) {
	tr := NewTracker()
	services := make([]probe.Service, probe.MaxServices)
	for i := range services {
		services[i] = service(string(rune('a'+i%26))+string(rune('a'+i/26)), uint64(i+1))
	}
	tr.Services(services, t0)
	v := passed(t0, time.Millisecond)
	round := func() {
		for _, s := range services {
			tr.Observed(s, v, false)
		}
	}
	if n := testing.AllocsPerRun(10, func() { tr.Snapshot(); round() }); n != 1 {
		t.Errorf("%v allocations a round, want 1", n)
	}
}

func TestTrackerConcurrently(t *testing.T) {
	web := service("web", 1)
	tr := NewTracker()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 200 {
				tr.Services([]probe.Service{web}, t0)
				tr.Observed(web, passed(t0, time.Duration(i)), i%2 == 0)
			}
		})
		wg.Go(func() {
			last := uint64(0)
			for range 200 {
				s := tr.Snapshot()
				if s.Generation < last || len(s.Entries) > 1 {
					t.Errorf("generation %d after %d with %d entries", s.Generation, last, len(s.Entries))
				}
				last = s.Generation
			}
		})
	}
	wg.Wait()
	if g := tr.Snapshot().Generation; g != 4*200*2 {
		t.Errorf("generation %d after %d changes", g, 4*200*2)
	}
}
