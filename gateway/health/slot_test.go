// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"math"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/probe"
)

// answer is what a reader of service gets at t0.
func answer(c *Cache) Answer {
	return Evaluate(Endpoint{ID: service, Revision: revision}, Ready, c.Slot(sandbox), t0)
}

func wantReason(t *testing.T, c *Cache, want Reason) {
	t.Helper()
	if a := answer(c); a.Reason != want {
		t.Errorf("answered %v %q, want %q", a.State, a.Reason, want)
	}
}

func TestOnlyTheOwnerReportsAndDisconnects(t *testing.T) {
	c := connected(t, fresh(t0))
	c.Connected(sandbox, session+1, 0, instance) // displaces the first
	bad := fresh(t0)
	bad.State = probe.Unhealthy
	if c.Reported(sandbox, session, 99, []Observation{bad}, only(service)) {
		t.Error("a report of the displaced session was taken")
	}
	c.Disconnected(sandbox, session, t0)
	if s := c.Slot(sandbox); !s.Live || s.Session != session+1 || !s.Lost.IsZero() {
		t.Errorf("the end of the displaced session changed the slot: %+v", s)
	}
	wantReason(t, c, NoReason)
	if a := answer(c); a.State != probe.Healthy {
		t.Errorf("the displaced session's report is shown: %+v", a)
	}
	c.Disconnected(sandbox, session+1, t0)
	wantReason(t, c, SupervisorDisconnected)
	if c.Reported(sandbox, session+1, 100, []Observation{bad}, only(service)) {
		t.Error("a report was taken after the session's end")
	}
	c.Disconnected(sandbox, session+1, t0.Add(time.Hour))
	if s := c.Slot(sandbox); s.Live || !s.Lost.Equal(t0) {
		t.Errorf("the second end of a session counts: lost %v", s.Lost)
	}
}

func TestWhatTheCacheNeverHeardOf(t *testing.T) {
	c := NewCache()
	c.Disconnected(sandbox, session, t0)
	if c.Reported(sandbox, session, 1, []Observation{fresh(t0)}, only(service)) || c.Counts() != (Counts{}) {
		t.Errorf("a session that never connected left traces: %+v", c.Counts())
	}
	wantReason(t, c, SupervisorDisconnected)
	c = connected(t, fresh(t0))
	c.Forget(sandbox)
	c.Disconnected(sandbox, session, t0)
	if c.Reported(sandbox, session, 1, []Observation{fresh(t0)}, only(service)) || c.Counts() != (Counts{}) {
		t.Errorf("a forgotten sandbox is back: %+v", c.Counts())
	}
}

// The same agent in a new session goes on where it was, another one does not.
func TestReconnectAndReplacement(t *testing.T) {
	c := connected(t, fresh(t0))
	c.Reported(sandbox, session, 50, nil, only(service))
	c.Disconnected(sandbox, session, t0)
	c.Connected(sandbox, session+1, 0, instance)
	wantReason(t, c, NoReason)
	if c.Reported(sandbox, session+1, 49, nil, only(service)) {
		t.Error("the same instance went back in a new session")
	}
	c.Connected(sandbox, session+2, 0, "instance-2")
	wantReason(t, c, RuntimeReplaced)
	// Its first report comes before its first attempt: still replaced.
	if !c.Reported(sandbox, session+2, 1, nil, only(service)) {
		t.Fatal("the first report of the new instance was refused: generations are per instance")
	}
	wantReason(t, c, RuntimeReplaced)
	o := fresh(t0)
	o.Instance = "instance-2"
	c.Reported(sandbox, session+2, 2, []Observation{o}, only(service))
	wantReason(t, c, NoReason)
}

func TestConfigurationChangedUntilItIsObserved(t *testing.T) {
	c := connected(t, fresh(t0))
	e := Endpoint{ID: service, Revision: revision + 1}
	reason := func() Reason { return Evaluate(e, Ready, c.Slot(sandbox), t0).Reason }
	if got := reason(); got != ConfigurationChanged {
		t.Errorf("before the agent knows: %v", got)
	}
	c.Reported(sandbox, session, 2, nil, only(service)) // in its list, not tried yet
	if got := reason(); got != ConfigurationChanged {
		t.Errorf("before the first attempt: %v", got)
	}
	o := fresh(t0)
	o.Revision++
	c.Reported(sandbox, session, 3, []Observation{o, fresh(t0)}, only(service))
	if got := reason(); got != NoReason {
		t.Errorf("after it: %v", got)
	}
	if n := c.Counts().Observations; n != 1 {
		t.Errorf("%d observations of one service", n)
	}
}

func TestOlderGenerationsAreRefused(t *testing.T) {
	for _, tc := range []struct {
		generation uint64
		taken      bool
	}{{5, true}, {5, true}, {4, false}, {0, false}, {6, true}, {5, false}, {math.MaxUint64, true}, {6, false}} {
		c := connected(t)
		before := max(tc.generation, 5)
		if !tc.taken {
			before = tc.generation + 1
		} else if tc.generation < before {
			before = tc.generation
		}
		c.Reported(sandbox, session, before, nil, nil)
		if got := c.Reported(sandbox, session, tc.generation, []Observation{fresh(t0)}, only(service)); got != tc.taken {
			t.Errorf("generation %d after %d: taken %t", tc.generation, before, got)
		}
		if got := answer(c).Reason == NoReason; got != tc.taken {
			t.Errorf("generation %d after %d: shown %t", tc.generation, before, got)
		}
	}
}

// T11: an empty report is a report. What it leaves out ages; what is not desired
// any more goes.
func TestReportsThatLeaveServicesOut(t *testing.T) {
	other := fresh(t0)
	other.ServiceID = "service-0"
	c := connected(t, fresh(t0), other)
	c.Reported(sandbox, session, 2, nil, only(service, "service-0"))
	wantReason(t, c, NoReason)
	if n := c.Counts(); n != (Counts{Sandboxes: 1, Live: 1, Observations: 2}) {
		t.Errorf("counts %+v", n)
	}
	c.Reported(sandbox, session, 3, nil, only("service-0"))
	wantReason(t, c, NotObserved)
	c.Reported(sandbox, session, 4, nil, nil)
	if n := c.Counts().Observations; n != 0 {
		t.Errorf("%d observations of an empty list", n)
	}
	if s := c.Slot(sandbox); s.Generation != 4 || !s.Live {
		t.Errorf("the empty report was not taken over: %+v", s)
	}
}

func TestASlotIsImmutable(t *testing.T) {
	c := connected(t, fresh(t0))
	before := c.Slot(sandbox)
	obs := []Observation{fresh(t0.Add(time.Second))}
	c.Reported(sandbox, session, 2, obs, only(service))
	obs[0].State = probe.Unhealthy
	c.Disconnected(sandbox, session, t0)
	if o := before.observation(service); !before.Live || !o.Latest.Equal(t0) {
		t.Errorf("a slot that was handed out has changed: %+v", before)
	}
	if o := c.Slot(sandbox).observation(service); o.State != probe.Healthy {
		t.Error("the cache shares the caller's slice")
	}
}

// Two reports on one attempt can prove different instants; the better one
// counts, and the time of the last change stands still.
func TestInstantsNeverGoBack(t *testing.T) {
	first := fresh(t0.Add(-2 * time.Second))
	change := func(edit func(*Observation)) Observation {
		next := first
		edit(&next)
		c := connected(t, first)
		c.Reported(sandbox, session, 2, []Observation{next}, only(service))
		return *c.Slot(sandbox).observation(service)
	}
	worse := change(func(o *Observation) {
		o.Latest, o.Conclusive = o.Latest.Add(-time.Second), o.Conclusive.Add(-13*time.Second)
		o.Since = o.Since.Add(300 * time.Millisecond)
	})
	if worse != first {
		t.Errorf("a worse proof of the same attempt: %+v", worse)
	}
	better := change(func(o *Observation) { o.Latest, o.Conclusive = t0, t0 })
	if !better.Latest.Equal(t0) || !better.Conclusive.Equal(t0) {
		t.Errorf("a later attempt does not count: %+v", better)
	}
	for _, tc := range []struct {
		name string
		edit func(*Observation)
		keep bool
	}{
		{"earlier", func(o *Observation) { o.Since = o.Since.Add(-time.Second) }, false},
		{"9 s later, by a slow report", func(o *Observation) { o.Since = o.Since.Add(9 * time.Second) }, true},
		{"10 s later, which is another change", func(o *Observation) { o.Since = o.Since.Add(10 * time.Second) }, false},
		{"another state", func(o *Observation) { o.State, o.Since = probe.Unhealthy, t0 }, false},
	} {
		if got := change(tc.edit).Since; got.Equal(first.Since) != tc.keep {
			t.Errorf("since, %s: %v after %v", tc.name, got, first.Since)
		}
	}
	for name, edit := range map[string]func(*Observation){
		"instance": func(o *Observation) { o.Instance, o.Latest, o.Conclusive = "i", t0.Add(-time.Hour), time.Time{} },
		"revision": func(o *Observation) { o.Revision, o.Latest, o.Conclusive = 9, t0.Add(-time.Hour), time.Time{} },
	} {
		if got := change(edit); !got.Latest.Equal(t0.Add(-time.Hour)) || !got.Conclusive.IsZero() {
			t.Errorf("another %s inherits instants: %+v", name, got)
		}
	}
}
