// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"slices"
	"time"
)

const (
	// slots is how many attempts run side by side while none hangs.
	slots = 8
	// patience is how long a whole list may wait for slots that hanging
	// services hold; each service waits for its share of it, then starts
	// regardless.
	patience = 500 * time.Millisecond
	// partialAfter is how long after its start a round is called ended for the
	// first time, if some of its attempts are not in. It is longer than patience:
	// a service that waited for its slot all that time is in, if it answers.
	partialAfter = 600 * time.Millisecond
)

// plan decides what the scheduler does next. It is pure: every instant is an
// argument, and it starts nothing.
type plan struct {
	next      time.Time // when the next round is due
	entries   []*entry  // in the order of the list
	byName    map[string]*entry
	flying    map[string]*entry // what is in flight, of any configuration
	queue     []*entry          // to start, in this order
	headSince time.Time         // since when the head of the queue waits
	rounds    []*round          // not all in
}

// entry is a service of the present list.
type entry struct {
	service    Service
	judge      *Judge
	configured time.Time
	passed     bool
	quickMade  int
	quickAt    time.Time // of the next quick attempt; zero if none is due
	retried    bool      // an attempt that could not tell was made again
	queued     bool
	extra      bool      // whether the attempt queued or in flight is off the timer
	started    time.Time // of the attempt in flight
	waiting    []*round  // rounds that wait for that attempt
}

// round is a burst of attempts.
type round struct {
	start   time.Time
	pending int
	partial bool // whether it was called ended before all were in
}

func newPlan(first time.Time) *plan {
	return &plan{next: first, byName: map[string]*entry{}, flying: map[string]*entry{}}
}

// replace takes over a list. A service that is new, or that has another
// configuration, is attempted at once. It returns the entries that came and
// went, and how many rounds have ended because nobody is left to wait for.
// Of two services with one name the first counts.
func (p *plan) replace(services []Service, now time.Time) (came, went []*entry, ended int) {
	entries, byName := make([]*entry, 0, len(services)), make(map[string]*entry, len(services))
	for _, s := range services {
		if byName[s.Name] != nil {
			continue
		}
		e := p.byName[s.Name]
		if e == nil || e.service != s {
			e = &entry{service: s, judge: NewJudge(now), configured: now}
			came = append(came, e)
		}
		entries, byName[s.Name] = append(entries, e), e
	}
	for _, e := range p.entries {
		if byName[e.service.Name] != e {
			went = append(went, e)
			ended += p.settle(e)
		}
	}
	p.entries, p.byName = entries, byName
	p.queue = slices.DeleteFunc(p.queue, func(e *entry) bool { return byName[e.service.Name] != e })
	for _, e := range came {
		p.enqueue(e, true, now)
	}
	return came, went, ended
}

// begin starts a round of all services and reports how many rounds ended with
// that: one without services, or whose services are all in flight, is over.
func (p *plan) begin(extra bool, now time.Time) (ended int) {
	r := &round{start: now}
	for _, e := range p.entries {
		if p.flying[e.service.Name] != nil && !e.queued {
			continue
		}
		p.enqueue(e, extra, now)
		e.waiting = append(e.waiting, r)
		r.pending++
	}
	if r.pending == 0 {
		return 1
	}
	p.rounds = append(p.rounds, r)
	return 0
}

// enqueue asks for an attempt. One that is queued already becomes one of the
// timer if either is.
func (p *plan) enqueue(e *entry, extra bool, now time.Time) {
	e.quickAt = time.Time{}
	if e.queued {
		e.extra = e.extra && extra
		return
	}
	if len(p.queue) == 0 {
		p.headSince = now
	}
	e.queued, e.extra = true, extra
	p.queue = append(p.queue, e)
}

// due does what is due at now. If a round began, began is true and late is how
// late it was.
func (p *plan) due(now time.Time) (late time.Duration, began bool, ended int) {
	if !now.Before(p.next) {
		late, began = now.Sub(p.next), true
		p.next = nextRound(p.next, now)
		ended += p.begin(false, now)
	}
	for _, e := range p.entries {
		if !e.quickAt.IsZero() && !now.Before(e.quickAt) {
			p.enqueue(e, true, now)
		}
	}
	for _, r := range p.rounds {
		if !r.partial && !now.Before(r.start.Add(partialAfter)) {
			r.partial = true
			ended++
		}
	}
	return late, began, ended
}

// start returns the next entry to attempt, which is in flight from then on, or
// nil if none may start at now.
func (p *plan) start(now time.Time) *entry {
	i := p.startable()
	if i < 0 {
		return nil
	}
	since := now
	if len(p.flying) >= slots {
		// What this turn is late by is not for the next one to wait again.
		if since = p.headSince.Add(p.share()); now.Before(since) {
			return nil
		}
	}
	e := p.queue[i]
	p.queue = slices.Delete(p.queue, i, i+1)
	p.headSince = since
	e.queued = false
	p.flying[e.service.Name], e.started = e, now
	return e
}

// startable returns the index of the first entry in the queue whose name is
// not in flight in an earlier configuration, or -1.
func (p *plan) startable() int {
	return slices.IndexFunc(p.queue, func(e *entry) bool { return p.flying[e.service.Name] == nil })
}

func (p *plan) share() time.Duration { return patience / time.Duration(max(len(p.entries), 1)) }

// done takes the result of the attempt that start gave out. It reports false
// if the configuration is gone, and the result with it.
func (p *plan) done(e *entry, a Attempt, now time.Time) (v Verdict, changed, current bool, ended int) {
	delete(p.flying, e.service.Name)
	if p.byName[e.service.Name] != e {
		return Verdict{}, false, false, 0
	}
	v, changed = e.judge.Observe(a, e.extra)
	e.passed = e.passed || a.Outcome == Pass
	p.quicken(e, a, now)
	return v, changed, true, p.settle(e)
}

// quicken decides whether e is attempted again before the next round.
func (p *plan) quicken(e *entry, a Attempt, now time.Time) {
	if a.conclusive() {
		e.retried = false
	}
	delay, ok := quickDelay(e.passed, e.quickMade, now.Sub(e.configured), a.Reason)
	if e.passed && !a.conclusive() && !e.retried {
		// Once: after a thaw the round may be far, and whoever is starved all
		// the time must not work more for it.
		delay, ok, e.retried = quickMax, true, true
	}
	if at := now.Add(delay); ok && quickFits(at, a.Latency, p.next) {
		e.quickAt = at
		e.quickMade++
	}
}

// suspended takes note that this process did not run for a while before now, of
// which the monotonic clock has missed asleep. Fails before and after that are not in a row. Attempts in flight are worth
// nothing: their entries go, and others with the same judge come, so that done
// drops what becomes of them. All are attempted anew, off the timer unless a
// round is due. It returns also how many rounds have ended.
func (p *plan) suspended(now time.Time, asleep time.Duration) (came, went []*entry, ended int) {
	for i, e := range p.entries {
		e.judge.Suspended(asleep)
		if p.flying[e.service.Name] != e {
			continue
		}
		e.judge.Observe(Attempt{Outcome: Inconclusive, Reason: Suspended, Start: e.started, End: now, Latency: now.Sub(e.started)}, e.extra)
		ended += p.settle(e)
		fresh := *e
		fresh.waiting = nil
		p.entries[i], p.byName[e.service.Name] = &fresh, &fresh
		came, went = append(came, &fresh), append(went, e)
	}
	for _, e := range came {
		p.enqueue(e, true, now)
	}
	if now.Before(p.next) { // otherwise due begins one
		ended += p.begin(true, now)
	}
	return came, went, ended
}

// settle tells the rounds that wait for e that they need not, and returns how
// many of them ended with that.
func (p *plan) settle(e *entry) (ended int) {
	for _, r := range e.waiting {
		if r.pending--; r.pending == 0 {
			ended++
			p.rounds = slices.DeleteFunc(p.rounds, func(o *round) bool { return o == r })
		}
	}
	clear(e.waiting)
	e.waiting = e.waiting[:0]
	return ended
}

// wake returns when something is due next, if nothing happens before.
func (p *plan) wake() time.Time {
	at := p.next
	sooner := func(t time.Time) {
		if t.Before(at) {
			at = t
		}
	}
	if p.startable() >= 0 {
		sooner(p.headSince.Add(p.share()))
	}
	for _, e := range p.entries {
		if !e.quickAt.IsZero() {
			sooner(e.quickAt)
		}
	}
	for _, r := range p.rounds {
		if !r.partial {
			sooner(r.start.Add(partialAfter))
		}
	}
	return at
}
