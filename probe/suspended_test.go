// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"testing"
	"time"
)

// TestSuspended holds the scheduler's part of T12: what was in flight is
// dropped, whatever becomes of it, and everything is attempted at once.
func TestSuspended(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before answer
	}{
		{"a pass is dropped", answer{reason: OK, takes: 900 * time.Millisecond, deaf: true}},
		{"a fail is dropped", answer{reason: BadStatus, takes: 900 * time.Millisecond, deaf: true}},
		{"a cancelled one does not count", answer{reason: OK, takes: 900 * time.Millisecond}},
	} {
		inWorld(t, 2*time.Second, func(w *world) {
			counted := map[Outcome]int{}
			w.onResult = func(s Service, a Attempt) {
				w.Lock()
				defer w.Unlock()
				if s.Name == "s1" {
					counted[a.Outcome]++
				}
			}
			w.target(1, passes)
			w.target(2, passes)
			w.expose(1, 2)
			w.until(6500 * time.Millisecond)
			w.target(1, tt.before)
			w.until(7500 * time.Millisecond) // one attempt of s1 in flight since 7 s
			w.target(1, fails)
			w.slept = true
			w.scheduler.Look()
			w.until(7500 * time.Millisecond)
			v := w.latest("s1")
			if v.State != Healthy || v.Latest.Reason != Suspended || v.Latest.Outcome != Inconclusive || v.Conclusive.Sub(w.start) != 2002*time.Millisecond {
				t.Errorf("%s: %+v", tt.name, v)
			}
			if at := v.Latest.Start.Sub(w.start); at != 7*time.Second || v.Latest.End.Sub(w.start) != 7500*time.Millisecond {
				t.Errorf("%s: the attempt in flight began at %v", tt.name, at)
			}
			w.until(9 * time.Second)
			again := 7900 // a deaf one keeps its service from being attempted twice at a time
			if !tt.before.deaf {
				again = 7500
			}
			w.wantTimes(tt.name+": attempts of s1", w.attempts[1], 0, 2000, 7000, again)
			w.wantTimes(tt.name+": attempts of s2", w.attempts[2], 0, 2000, 7000, 7500)
			// The fail that came then is off the timer and does not count.
			if v := w.latest("s1"); v.State != Healthy || v.Failures != 0 || v.Latest.Reason != BadStatus {
				t.Errorf("%s: afterwards %+v", tt.name, v)
			}
			if counted[Pass] != 2 || counted[Inconclusive] != 1 || counted[Fail] != 1 {
				t.Errorf("%s: counted %v", tt.name, counted)
			}
			if n := len(w.rounds); n < 2 || w.rounds[n-1] < 7500*time.Millisecond || w.rounds[n-1] > 7902*time.Millisecond {
				t.Errorf("%s: rounds ended at %v", tt.name, w.rounds)
			}
		})
	}
}

// TestSuspendedFailsDoNotAddUp: two before and one after are not three in a
// row, whether something was in flight or not; three after are.
func TestSuspendedFailsDoNotAddUp(t *testing.T) {
	for _, at := range []time.Duration{13500 * time.Millisecond, 12001 * time.Millisecond} {
		inWorld(t, 2*time.Second, func(w *world) {
			w.target(1, passes)
			w.expose(1)
			w.until(3 * time.Second)
			w.target(1, fails)
			w.until(at) // fails at 7 and 12 s, the second maybe in flight
			w.slept = true
			w.scheduler.Look()
			w.until(27 * time.Second)
			if got := w.changes("s1"); got != "2ms HEALTHY " {
				t.Errorf("suspended at %v: %s", at, got)
			}
			w.until(28 * time.Second)
			if got := w.changes("s1"); got != "2ms HEALTHY 27.002s UNHEALTHY " {
				t.Errorf("suspended at %v: %s", at, got)
			}
		})
	}
}

// TestSuspendedOffTheTimer: what was in flight ends the row also if it was off
// the timer, and so does a suspension with nothing in flight; the sink is told.
func TestSuspendedOffTheTimer(t *testing.T) {
	now := time.Now()
	sink := &lastVerdicts{of: map[string]Verdict{}}
	p := NewPlanner(sink, now.Add(Interval))
	p.SetServices([]Service{serviceOn(1), serviceOn(2)}, now)
	fail := func(planned Planned) { p.Done(planned, failed(now), now) }
	next := func() Planned {
		planned, ok := p.Next(now)
		if !ok {
			t.Fatalf("%v: nothing to attempt", now)
		}
		return planned
	}
	fail(next())
	fail(next())
	for range 2 {
		now = now.Add(Interval)
		p.Due(now)
		fail(next())
		fail(next())
	}
	now = now.Add(quickMax)
	p.Due(now)
	flying := next()
	fail(next())
	if !flying.Extra() || sink.of["s1"].Failures != 2 || sink.of["s2"].Failures != 2 {
		t.Fatalf("extra %v, %+v", flying.Extra(), sink.of)
	}
	p.Suspended(now, 0)
	for name, v := range sink.of {
		if v.Failures != 0 {
			t.Errorf("%s: %d fails in a row over the suspension", name, v.Failures)
		}
	}
	if name := flying.Service().Name; sink.of[name].Latest.Reason != Suspended {
		t.Errorf("%s: %v", name, sink.of[name].Latest.Reason)
	}
}

// lastVerdicts is a Sink that keeps the last verdict of each service.
type lastVerdicts struct{ of map[string]Verdict }

func (l *lastVerdicts) Services([]Service, time.Time)         {}
func (l *lastVerdicts) Observed(s Service, v Verdict, _ bool) { l.of[s.Name] = v }
func (l *lastVerdicts) RoundEnded()                           {}

// TestSuspendedWithARoundDue: the round that is due is the one at once, and its
// attempts count.
func TestSuspendedWithARoundDue(t *testing.T) {
	now := time.Now()
	p := newPlan(now)
	p.replace([]Service{serviceOn(1), serviceOn(2)}, now)
	p.due(now)
	flying, other := p.start(now), p.start(now)
	now = now.Add(time.Minute)
	came, went, _ := p.suspended(now, 0)
	if len(came) != 2 || len(went) != 2 || went[0] != flying || went[1] != other {
		t.Fatalf("%d came, %d went", len(came), len(went))
	}
	if late, began, _ := p.due(now); !began || late != time.Minute-Interval {
		t.Fatalf("no round began, or %v late", late)
	}
	if p.start(now) != nil {
		t.Fatal("a service is attempted beside the attempt that was dropped")
	}
	for _, e := range went {
		if _, _, current, _ := p.done(e, failed(now), now); current {
			t.Error("a result from before counts")
		}
	}
	for range 2 {
		e := p.start(now)
		if e == nil {
			t.Fatal("not attempted at once")
		}
		if v, _, current, _ := p.done(e, failed(now), now); !current || v.Failures != 1 {
			t.Errorf("%+v, %v", v, current)
		}
	}
	if len(p.flying) != 0 || len(p.queue) != 0 || len(p.rounds) != 0 {
		t.Errorf("left over: %d in flight, %d queued, %d rounds", len(p.flying), len(p.queue), len(p.rounds))
	}
}
