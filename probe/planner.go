// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import "time"

// Planner is a Scheduler without its loop: it decides when attempts are made
// and tells the Sink what they showed, but makes none and knows no clock. The
// Scheduler is its loop; a simulation drives it in a time of its own. Its owner
// serialises the calls, whose instants never go back. A turn is:
//
//	for Due(now); there is a Next(now); { begin that attempt }
//	wait until Wake(), or until an attempt has ended, which Done is told
type Planner struct {
	plan *plan
	sink Sink
}

// Planned is an attempt that a Planner wants to be made.
type Planned struct{ entry *entry }

// Service returns what is to be attempted.
func (p Planned) Service() Service { return p.entry.service }

// Extra reports whether the attempt is made off the timer, as known until it
// has ended.
func (p Planned) Extra() bool { return p.entry.extra }

// NewPlanner returns a planner without services whose first round begins at
// the given instant.
func NewPlanner(sink Sink, first time.Time) *Planner { return &Planner{newPlan(first), sink} }

// SetServices takes over a list, as Scheduler.SetServices does.
func (p *Planner) SetServices(services []Service, now time.Time) { p.replace(services, now) }

// ProbeNow begins an extra round of all services.
func (p *Planner) ProbeNow(now time.Time) { p.ended(p.plan.begin(true, now)) }

// Suspended takes note that this process did not run for a while before now, of
// which the monotonic clock, and so all instants, have missed asleep:
// what was in flight is inconclusive, Done drops what becomes of it, fails
// before and after do not add up, and all services are attempted at once.
func (p *Planner) Suspended(now time.Time, asleep time.Duration) { p.suspended(now, asleep) }

// suspended returns also the entries that took the place of others, which were
// in flight.
func (p *Planner) suspended(now time.Time, asleep time.Duration) (came, went []*entry) {
	came, went, ended := p.plan.suspended(now, asleep)
	for _, e := range p.plan.entries {
		if v := e.judge.Verdict(); !v.Observed.IsZero() {
			p.sink.Observed(e.service, v, false)
		}
	}
	p.ended(ended)
	return came, went
}

// Due does what is due at now. If that began a round, it returns how late.
func (p *Planner) Due(now time.Time) (late time.Duration, began bool) {
	late, began, ended := p.plan.due(now)
	p.ended(ended)
	return late, began
}

// Next returns an attempt that is to begin now, if there is one. It is in
// flight from then on.
func (p *Planner) Next(now time.Time) (Planned, bool) {
	e := p.plan.start(now)
	return Planned{e}, e != nil
}

// Done takes the result of an attempt. It reports false, and drops the result,
// if the service has another configuration by now, or is gone.
func (p *Planner) Done(planned Planned, a Attempt, now time.Time) bool {
	verdict, changed, current, ended := p.plan.done(planned.entry, a, now)
	if current {
		p.sink.Observed(planned.entry.service, verdict, changed)
		p.ended(ended)
	}
	return current
}

// current reports whether Done would take a result.
func (p *Planner) current(planned Planned) bool {
	return p.plan.byName[planned.Service().Name] == planned.entry
}

// Wake returns when something is due next, if nothing happens before.
func (p *Planner) Wake() time.Time { return p.plan.wake() }

// replace takes over a list and returns the entries that came and went.
func (p *Planner) replace(services []Service, now time.Time) (came, went []*entry) {
	came, went, ended := p.plan.replace(services, now)
	list := make([]Service, 0, len(p.plan.entries))
	for _, e := range p.plan.entries {
		list = append(list, e.service)
	}
	p.sink.Services(list, now)
	p.ended(ended)
	return came, went
}

// ended tells the sink once, however many rounds ended at this instant.
func (p *Planner) ended(rounds int) {
	if rounds > 0 {
		p.sink.RoundEnded()
	}
}
