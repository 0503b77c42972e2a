// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

// interval is the contract's time between two attempts of the timer.
const interval = 5 * time.Second

// within checks that something which the answers before and now enclose came
// true between low and high after an instant. late is how late the agent was
// by its own measure.
func within(t *testing.T, what string, after time.Time, before, now reading, low, high, late time.Duration) {
	t.Helper()
	earliest, latest := before.from.Sub(after), now.to.Sub(after)
	t.Logf("%s after %.3f to %.3f s; the agent was late by %.3f s at most", what, earliest.Seconds(), latest.Seconds(), late.Seconds())
	if latest < low || earliest > high+late {
		t.Errorf("%s between %v and %v, want %v to %v, and %v for lateness", what, earliest, latest, low, high, late)
	}
}

// T01, and the times of the contract: a good service turns bad, as early and as
// late in a round as can be, and good again at the worst moment.
func TestT01Times(t *testing.T) {
	t.Parallel()
	s := runningSite(t)
	client := s.client()
	for _, bad := range []struct {
		name      string
		path      string
		does      behaviour
		low, high time.Duration
		reason    string
	}{
		{"status 500", "/ready", answer(500), 2 * interval, 3 * interval, "BadStatus"},
		{"refused", "", nil, 2 * interval, 3 * interval, "Refused"},
		{"hanging", "", hang, 2*interval + time.Second, 3*interval + time.Second, "Timeout"},
	} {
		for name, phase := range map[string]time.Duration{"after": interval / 10, "before": interval * 9 / 10} {
			t.Run(bad.name+" just "+name+" a round", func(t *testing.T) {
				t.Parallel()
				s := s.in(t)
				// It goes on answering on connections that it has: none must count.
				x := s.target(keepAlive)
				s.exposeAll(client, bad.path, x)
				w := s.watch(serviceOf(x))
				w.untilState(20*time.Second, time.Time{}, sandbox.HealthHealthy)
				x.untilAsked(2 * interval) // the timer's: one attempt came at once
				s.during(time.Until(x.lastAsked().Add(phase)))
				changed := time.Now()
				s.late(changed)
				if bad.does == nil {
					x.unlisten()
				} else {
					x.turn(bad.does)
				}
				before, now := w.untilState(90*time.Second, changed, sandbox.HealthUnhealthy)
				// Where the agent itself was too late to tell, it begins to count again.
				unsure := w.unsure(changed, now.from)
				within(t, "UNHEALTHY", changed, before, now, bad.low, bad.high+unsure, s.late(changed))
				if now.health.Reason != bad.reason || now.health.Failures != 3 {
					t.Errorf("UNHEALTHY for another reason: %v", now)
				}
				s.during(time.Until(now.health.LastChecked.Add(interval + interval/10)))
				back := time.Now()
				s.late(back)
				x.turn(answer(200))
				if bad.does == nil {
					x.listen()
				}
				before, now = w.untilState(30*time.Second, back, sandbox.HealthHealthy)
				within(t, "HEALTHY again", back, before, now, 0, interval+time.Second, s.late(back))
			})
		}
	}
}

// T02: a server on ::1 alone, one on 127.0.0.1 alone, and one on each of them:
// the answer names the address.
func TestT02Addresses(t *testing.T) {
	t.Parallel()
	s := runningSite(t)
	client := s.client()
	for addr, want := range map[string]string{"127.0.0.1:0": "127.0.0.1", "[::1]:0": "::1", "[::]:0": "127.0.0.1"} {
		t.Run(addr, func(t *testing.T) {
			t.Parallel()
			s := s.in(t)
			x := s.targetOn(addr, answer(200))
			s.exposeAll(client, "", x)
			w := s.watch(serviceOf(x), good(x)...)
			_, now := w.untilState(15*time.Second, time.Time{}, sandbox.HealthHealthy)
			if now.health.Address != want {
				t.Errorf("answered by %s, want %s", now.health.Address, want)
			}
		})
	}
}

// T06: one good service beside 30 that hang is answered HEALTHY, and no
// observation is older than 6 s.
func TestT06BesideHanging(t *testing.T) {
	t.Parallel()
	s := runningSite(t)
	client := s.client()
	x := s.target(answer(200))
	var hanging []*target
	for range 30 {
		hanging = append(hanging, s.target(hang))
	}
	s.exposeAll(client, "", append(hanging, x)...)
	one := s.watch(serviceOf(hanging[0]), neverHealthy)
	other := s.watch(serviceOf(hanging[29]), neverHealthy)
	w := s.watch(serviceOf(x), good(x)...)
	w.untilState(15*time.Second, time.Time{}, sandbox.HealthHealthy)
	began := time.Now()
	s.late(began)
	one.untilState(90*time.Second, began, sandbox.HealthUnhealthy)
	other.untilState(90*time.Second, began, sandbox.HealthUnhealthy)
	s.during(time.Until(began.Add(30 * time.Second)))
	s.youngerThan(w, began, 6*time.Second)
}

// youngerThan checks that all answers of a watch since an instant at which late
// was called were HEALTHY, on an observation that was not older than limit.
func (s *site) youngerThan(w *watch, since time.Time, limit time.Duration) {
	s.t.Helper()
	late := s.late(since)
	var oldest time.Duration
	list := w.since(since)
	for _, r := range list {
		oldest = max(oldest, r.younger())
		if r.health.State != sandbox.HealthHealthy || r.younger() > limit+late {
			s.t.Fatalf("%s: %v, want HEALTHY and at most %v old, and %v for lateness", w.name, r, limit, late)
		}
	}
	s.t.Logf("%s: %d answers, the oldest observation %.3f s; the agent was late by %.3f s at most", w.name, len(list), oldest.Seconds(), late.Seconds())
	if len(list) < int(time.Since(since)/time.Second) {
		s.t.Errorf("%s: only %d answers in %v", w.name, len(list), time.Since(since))
	}
}

// T08: a minute in which nothing happens: the age stays below 6 s, and the
// service's record and its last transition do not change, however much the
// answers of the target differ.
func TestT08Quiet(t *testing.T) {
	t.Parallel()
	s := runningSite(t)
	x := s.target(nil)
	x.turn(varying())
	s.exposeAll(s.client(), "", x)
	w := s.watch(serviceOf(x), good(x)...)
	_, first := w.untilState(15*time.Second, time.Time{}, sandbox.HealthHealthy)
	began := time.Now()
	s.late(began)
	s.during(time.Minute)
	s.youngerThan(w, began, 6*time.Second)
	for _, r := range w.since(began) {
		// A later report may prove that it was a little earlier, but not later.
		moved := r.health.LastTransition.Sub(first.health.LastTransition)
		if r.version != first.version || moved > time.Millisecond || moved < -interval/10 {
			t.Fatalf("the record or the transition has changed: %v, version %d, was %d; moved by %v", r, r.version, first.version, moved)
		}
	}
}
