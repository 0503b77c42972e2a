// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

// world is everything that an answer depends on, as facts. Its zero value with
// an observation is a healthy service.
type world struct {
	phase        Phase
	disconnected bool
	observed     bool
	by           string // instance that observed
	of           uint64 // revision that was observed
	age          time.Duration
	state        probe.State
	outcome      probe.Outcome
}

func good() world {
	return world{phase: Ready, observed: true, by: instance, of: revision, state: probe.Healthy, outcome: probe.Pass}
}

// slot plays the world's history into a cache.
func (w world) slot(now time.Time) Slot {
	c := NewCache()
	if w.observed {
		o := fresh(now.Add(-w.age))
		o.Instance, o.Revision, o.State, o.Outcome = w.by, w.of, w.state, w.outcome
		if w.outcome == probe.Inconclusive {
			o.Conclusive = time.Time{}
		}
		c.Connected(sandbox, 1, 0, w.by)
		c.Reported(sandbox, 1, 1, []Observation{o}, only(service))
	}
	c.Connected(sandbox, session, 0, instance)
	if w.disconnected {
		c.Disconnected(sandbox, session, now.Add(-time.Second))
	}
	return c.Slot(sandbox)
}

// faults makes each reason of the contract apply, in the contract's order.
var faults = []struct {
	reason Reason
	apply  func(*world)
}{
	{SandboxStopped, func(w *world) { w.phase = Stopped }},
	{SandboxNotReady, func(w *world) { w.phase = Starting }},
	{SupervisorDisconnected, func(w *world) { w.disconnected = true }},
	{RuntimeReplaced, func(w *world) { w.by = "instance-0" }},
	{ConfigurationChanged, func(w *world) { w.of = revision - 1 }},
	{NotObserved, func(w *world) { w.observed = false }},
	{Stale, func(w *world) { w.age = probe.StaleAfter }},
	{Inconclusive, func(w *world) { w.state, w.outcome = probe.Unknown, probe.Inconclusive }},
}

// exclusive tells which two cannot apply at once: a sandbox has one phase, and
// what was never observed has no instance, configuration, age or outcome.
func exclusive(a, b Reason) bool {
	phases := a == SandboxStopped && b == SandboxNotReady
	return phases || a == NotObserved && b > NotObserved || b == NotObserved && (a == RuntimeReplaced || a == ConfigurationChanged)
}

func evaluate(w world) Answer {
	return Evaluate(Endpoint{ID: service, Revision: revision}, w.phase, w.slot(t0), t0)
}

func TestEveryReasonAlone(t *testing.T) {
	if a := evaluate(good()); a.State != probe.Healthy || a.Reason != NoReason || a.Observation == nil {
		t.Fatalf("no fault: %+v", a)
	}
	for _, f := range faults {
		w := good()
		f.apply(&w)
		if a := evaluate(w); a.Reason != f.reason || a.State != probe.Unknown {
			t.Errorf("%v: answered %v %v", f.reason, a.State, a.Reason)
		}
	}
}

func TestEveryPairOfReasonsGivesTheFirst(t *testing.T) {
	pairs := 0
	for i, first := range faults {
		for _, second := range faults[i+1:] {
			if exclusive(first.reason, second.reason) {
				continue
			}
			pairs++
			for _, order := range [][2]func(*world){{first.apply, second.apply}, {second.apply, first.apply}} {
				w := good()
				order[0](&w)
				order[1](&w)
				if a := evaluate(w); a.Reason != first.reason || a.State != probe.Unknown {
					t.Errorf("%v and %v: answered %v %v", first.reason, second.reason, a.State, a.Reason)
				}
			}
		}
	}
	if want := 8*7/2 - 5; pairs != want {
		t.Errorf("%d pairs were tried, want %d", pairs, want)
	}
}

func TestAllReasonsAtOnceGiveTheFirst(t *testing.T) {
	for i, first := range faults {
		w := good()
		for j := len(faults) - 1; j >= i; j-- {
			if !exclusive(first.reason, faults[j].reason) {
				faults[j].apply(&w)
			}
		}
		first.apply(&w)
		if a := evaluate(w); a.Reason != first.reason {
			t.Errorf("%v and all after it: answered %v", first.reason, a.Reason)
		}
	}
}

func TestPhasesThatAnswer(t *testing.T) {
	for p := PhaseUnspecified; p <= Starting; p++ {
		w := good()
		w.phase = p
		want := SandboxNotReady
		switch p {
		case Stopped:
			want = SandboxStopped
		case Ready, PhaseUnknown:
			want = NoReason
		}
		if a := evaluate(w); a.Reason != want {
			t.Errorf("phase %d: answered %q, want %q", p, a.Reason, want)
		}
	}
}

// The agent's own verdict is passed on as it is, UNKNOWN with fails included.
func TestTheAgentsVerdict(t *testing.T) {
	for _, tc := range []struct {
		state   probe.State
		outcome probe.Outcome
		reason  Reason
	}{
		{probe.Healthy, probe.Pass, NoReason},
		{probe.Healthy, probe.Fail, NoReason},
		{probe.Unhealthy, probe.Fail, NoReason},
		{probe.Unknown, probe.Fail, NoReason},
		{probe.Unknown, probe.Inconclusive, Inconclusive},
	} {
		w := good()
		w.state, w.outcome = tc.state, tc.outcome
		a := evaluate(w)
		if a.State != tc.state || a.Reason != tc.reason || a.Observation == nil || a.Observation.Outcome != tc.outcome {
			t.Errorf("%v after %v: answered %v %q %+v", tc.state, tc.outcome, a.State, a.Reason, a.Observation)
		}
	}
}

// Contract 2.2: inconclusive attempts do not refresh a verdict, and where there
// is no verdict yet they are an observation like any other.
func TestInconclusiveAndAge(t *testing.T) {
	const latest = time.Second
	for _, tc := range []struct {
		name       string
		state      probe.State
		conclusive time.Duration // age; 0: never
		latest     time.Duration
		want       probe.State
		reason     Reason
	}{
		{"a verdict and a fresh inconclusive attempt", probe.Healthy, 14900 * time.Millisecond, latest, probe.Healthy, NoReason},
		{"15 s without a conclusive attempt", probe.Healthy, 15 * time.Second, latest, probe.Unknown, Stale},
		{"the same for an unhealthy one", probe.Unhealthy, 15 * time.Second, latest, probe.Unknown, Stale},
		{"no verdict, one conclusive fail long ago", probe.Unknown, 15 * time.Second, latest, probe.Unknown, Stale},
		{"no verdict, a fail not long ago", probe.Unknown, 10 * time.Second, latest, probe.Unknown, Inconclusive},
		{"never conclusive, just tried", probe.Unknown, 0, latest, probe.Unknown, Inconclusive},
		{"never conclusive, tried long ago", probe.Unknown, 0, 15 * time.Second, probe.Unknown, Stale},
	} {
		o := fresh(t0.Add(-tc.latest))
		o.State, o.Outcome, o.Conclusive = tc.state, probe.Inconclusive, time.Time{}
		if tc.conclusive > 0 {
			o.Conclusive = t0.Add(-tc.conclusive)
		}
		a := Evaluate(Endpoint{ID: service, Revision: revision}, Ready, connected(t, o).Slot(sandbox), t0)
		if a.State != tc.want || a.Reason != tc.reason {
			t.Errorf("%s: answered %v %q, want %v %q", tc.name, a.State, a.Reason, tc.want, tc.reason)
		}
	}
}

// An unknown answer shows what it last rested on, if that was of the present
// instance and configuration.
func TestObservationOfUnknownAnswers(t *testing.T) {
	for _, f := range faults {
		w := good()
		f.apply(&w)
		want := f.reason == SupervisorDisconnected || f.reason == Stale || f.reason == Inconclusive
		if a := evaluate(w); (a.Observation != nil) != want {
			t.Errorf("%v: observation %+v, want one: %t", f.reason, a.Observation, want)
		}
	}
}

// T09: the age is computed when it is read. Everything that could run is stuck
// here, and nothing sweeps.
func TestAgesWithEveryGoroutineBlocked(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		c := connected(t, fresh(time.Now()))
		released := make(chan struct{})
		defer close(released)
		for range 8 { // sessions that hang in their next report, or before they end
			go func() {
				<-released
				c.Reported(sandbox, session, 2, nil, nil)
				c.Disconnected(sandbox, session, time.Now())
			}()
		}
		read := func() string {
			now := time.Now()
			slot := c.Slot(sandbox)
			a := Evaluate(Endpoint{ID: service, Revision: revision}, PhaseOf(Lifecycle{Asked: Ready, Connected: true}, slot, now, now), slot, now)
			return fmt.Sprintf("%v %v", a.State, a.Reason)
		}
		for _, step := range []struct {
			pass time.Duration
			want string
		}{
			{0, "HEALTHY "},
			{14900 * time.Millisecond, "HEALTHY "},
			{200 * time.Millisecond, "UNKNOWN Stale"}, // 15.1 s
			{time.Hour, "UNKNOWN Stale"},
		} {
			testkit.Advance(step.pass)
			if got := read(); got != step.want {
				t.Errorf("%v later: %q, want %q", step.pass, got, step.want)
			}
		}
	})
}

// A reader never waits for a writer longer than one write takes, and sees whole
// slots.
func TestConcurrentReadsAndWrites(t *testing.T) {
	c := connected(t, fresh(t0))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range uint64(500) {
			c.Connected(sandbox, session+i, 0, instance)
			c.Reported(sandbox, session+i, 1, []Observation{fresh(t0)}, only(service))
			c.Disconnected(sandbox, session+i, t0)
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		a := Evaluate(Endpoint{ID: service, Revision: revision}, Ready, c.Slot(sandbox), t0)
		if a.Reason != NoReason && a.Reason != SupervisorDisconnected {
			t.Fatalf("answered %v", a.Reason)
		}
		c.Counts()
	}
}

func TestReasonNames(t *testing.T) {
	if got := Reason(200).String(); got != "Unknown" {
		t.Errorf("a number that is no reason: %q", got)
	}
	for _, f := range faults {
		if f.reason.String() == "" {
			t.Errorf("reason %d has no name", f.reason)
		}
	}
}

func BenchmarkEvaluate(b *testing.B) {
	obs := make([]Observation, 20)
	for i := range obs {
		obs[i] = fresh(t0)
		obs[i].ServiceID = fmt.Sprintf("service-%02d", i)
	}
	slot := connected(b, obs...).Slot(sandbox)
	e := Endpoint{ID: "service-11", Revision: revision}
	b.ReportAllocs()
	for b.Loop() {
		if a := Evaluate(e, Ready, slot, t0); a.State != probe.Healthy {
			b.Fatalf("%+v", a)
		}
	}
}
