// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"testing"
	"time"
)

// failed is an attempt that has just failed.
func failed(now time.Time) Attempt {
	return Attempt{Outcome: Fail, Reason: BadStatus, Start: now, End: now}
}

// TestQueuedAttemptBecomesOneOfTheRound: an extra attempt that still waits for
// a slot when the round begins is the round's, and counts; one that the round
// has queued stays so when an extra round comes.
func TestQueuedAttemptBecomesOneOfTheRound(t *testing.T) {
	now := time.Now()
	p := newPlan(now)
	p.replace([]Service{serviceOn(1), serviceOn(2)}, now)
	p.due(now)
	p.begin(true, now)
	for range 2 {
		e := p.start(now)
		if v, _, current, _ := p.done(e, failed(now), now); !current || v.Failures != 1 {
			t.Errorf("%+v, %v", v, current)
		}
	}
	if p.start(now) != nil {
		t.Error("a service was queued twice")
	}
}

// TestRoundEndsWhenNobodyIsLeft: services that go take their part of the round
// with them, whether they wait or are in flight.
func TestRoundEndsWhenNobodyIsLeft(t *testing.T) {
	now := time.Now()
	p := newPlan(now.Add(time.Hour))
	p.replace([]Service{serviceOn(1), serviceOn(2), serviceOn(3)}, now)
	if ended := p.begin(true, now); ended != 0 {
		t.Fatalf("%d rounds ended at once", ended)
	}
	first, second := p.start(now), p.start(now)
	if _, _, _, ended := p.done(first, failed(now), now); ended != 0 {
		t.Fatal("the round ended with the first")
	}
	if _, went, ended := p.replace([]Service{serviceOn(1)}, now); len(went) != 2 || ended != 1 {
		t.Errorf("%d went, %d rounds ended, want 2 and 1", len(went), ended)
	}
	if _, _, current, ended := p.done(second, failed(now), now); current || ended != 0 {
		t.Errorf("a service that is gone: current %v, %d rounds ended", current, ended)
	}
	if len(p.rounds) != 0 || len(p.flying) != 0 || len(p.queue) != 0 {
		t.Errorf("left over: %d rounds, %d in flight, %d queued", len(p.rounds), len(p.flying), len(p.queue))
	}
}

// TestSharesOfSlots: with all slots taken, each service waits its share and no
// longer, and the last of them no longer than patience.
func TestSharesOfSlots(t *testing.T) {
	begin := time.Now()
	var list []Service
	for i := range 50 {
		list = append(list, serviceOn(uint16(i+1)))
	}
	p := newPlan(begin.Add(time.Hour))
	p.replace(list, begin)
	for range slots {
		if p.start(begin) == nil {
			t.Fatal("a free slot was not used")
		}
	}
	now := begin
	for i := slots; i < len(list); i++ {
		if p.start(now) != nil || p.start(now.Add(patience/50-1)) != nil {
			t.Fatalf("service %d did not wait", i)
		}
		if now = now.Add(patience / 50); p.wake() != now || p.start(now) == nil {
			t.Fatalf("service %d waits for longer than its share", i)
		}
	}
	if now.Sub(begin) > patience {
		t.Errorf("the last waited for %v", now.Sub(begin))
	}
}

// TestLatenessOfTurnsDoesNotAddUp holds T06 on a busy machine: the last of a
// list starts within patience, and the lateness of one turn, although every
// turn is late; so that it is in when the round is called ended.
func TestLatenessOfTurnsDoesNotAddUp(t *testing.T) {
	const late = 5 * time.Millisecond
	begin := time.Now()
	var list []Service
	for i := range MaxServices {
		list = append(list, serviceOn(uint16(i+1)))
	}
	p := newPlan(begin.Add(time.Hour))
	p.replace(list, begin)
	now, started := begin, 0
	for {
		for p.start(now) != nil {
			started++
		}
		if started == len(list) {
			break
		}
		now = p.wake().Add(late)
	}
	if took := now.Sub(begin); took > patience+late || took+late > partialAfter {
		t.Errorf("the last of %d started after %v", started, took)
	}
}

// T12: an attempt that could not tell is made again once, so that a verdict
// does not wait for a round that may be far; not more often, so that an agent
// that is starved all the time does not work more for it.
func TestInconclusiveIsRetriedOnce(t *testing.T) {
	t0 := time.Now()
	p := newPlan(t0)
	p.replace([]Service{{Name: "web", Revision: 1, Target: Target{Port: 80}}}, t0)
	attempt := func(now time.Time, o Outcome, r Reason) {
		t.Helper()
		p.due(now)
		e := p.start(now)
		if e == nil {
			t.Fatalf("no attempt at %v", now.Sub(t0))
		}
		p.done(e, Attempt{Outcome: o, Reason: r, Start: now, End: now}, now)
	}
	at := func(d time.Duration) time.Time { return t0.Add(d) }
	attempt(at(0), Pass, OK)
	attempt(at(5*time.Second), Inconclusive, Late)
	if got := p.wake(); !got.Equal(at(6 * time.Second)) {
		t.Fatalf("the next attempt is at %v, want 6s", got.Sub(t0))
	}
	attempt(at(6*time.Second), Inconclusive, Late)
	if got := p.wake(); !got.Equal(at(10 * time.Second)) {
		t.Fatalf("after a second one the next attempt is at %v, want 10s", got.Sub(t0))
	}
	attempt(at(10*time.Second), Pass, OK)
	attempt(at(15*time.Second), Inconclusive, Late)
	if got := p.wake(); !got.Equal(at(16 * time.Second)) {
		t.Fatalf("in another row the next attempt is at %v, want 16s", got.Sub(t0))
	}
}
