// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/sandbox-agent/sandbox-agent/probe"
	"github.com/sandbox-agent/sandbox-agent/report"
)

// Target is what a port of the sandbox does to an attempt. The zero Target
// refuses.
type Target struct {
	// Reason is how an attempt that checks no status ends; BadStatus follows
	// from Code. NoReason is probe.Refused.
	Reason probe.Reason
	// Code is the status that it answers.
	Code uint16
	// Took is how long that takes.
	Took time.Duration
}

// flight is an attempt that was begun.
type flight struct {
	service probe.Service
	planned probe.Planned
	extra   bool
	start   time.Time
	running time.Duration // on the machine's monotonic clock, at the start
}

// Attempt begins an attempt that ends as told, by an agent that keeps no
// schedule. It does nothing if the agent does not have the service, or has it
// in flight.
func (a *Agent) Attempt(name string, extra bool, result Target) {
	if a.dead || a.planner != nil || a.Machine.stopped || a.flying[name] != nil {
		return
	}
	for _, svc := range a.list {
		if svc.Name == name {
			a.begin(&flight{service: svc, extra: extra}, result)
		}
	}
}

// RoundEnded tells an agent that keeps no schedule that a round has ended.
func (a *Agent) RoundEnded() {
	if !a.dead && a.planner == nil && !a.Machine.stopped {
		a.tracker.RoundEnded()
		a.publish()
	}
}

// turn does what the schedule says.
func (a *Agent) turn() {
	if a.planner == nil || a.dead {
		return
	}
	a.planner.Due(a.Machine.now())
	for {
		p, ok := a.planner.Next(a.Machine.now())
		if !ok {
			break
		}
		a.begin(&flight{service: p.Service(), planned: p}, a.world.aim(p))
	}
	a.publish()
	a.turns++
	mine := a.turns
	a.Machine.after(a.planner.Wake().Sub(a.Machine.now()), func() {
		if mine == a.turns {
			a.turn()
		}
	})
}

// aim tells what a target does to an attempt.
func (w *World) aim(p probe.Planned) Target {
	port := p.Service().Target.Port
	if w.Aim != nil {
		return w.Aim(port, p.Extra())
	}
	return w.Targets[port]
}

func (a *Agent) begin(f *flight, result Target) {
	f.start, f.running = a.Machine.now(), a.Machine.running()
	a.flying[f.service.Name] = f
	a.Machine.after(result.Took, func() {
		if !a.dead && a.flying[f.service.Name] == f {
			a.end(f, result)
			a.turn()
		}
	})
}

// end judges an attempt.
func (a *Agent) end(f *flight, result Target) {
	delete(a.flying, f.service.Name)
	attempt := result.attempt(f.service.Target, f.start, a.Machine.now())
	a.attempted(f, attempt)
	if a.planner != nil {
		a.planner.Done(f.planned, attempt, a.Machine.now())
	} else {
		verdict, changed := a.judges[f.service.Revision].Observe(attempt, f.extra)
		a.tracker.Observed(f.service, verdict, changed)
	}
	a.publish()
}

// attempted writes an attempt down.
func (a *Agent) attempted(f *flight, attempt probe.Attempt) {
	if a.planner != nil {
		f.extra = f.planned.Extra()
	}
	observed := f.running + min(attempt.Latency, time.Second) // of the contract
	a.world.log(Event{Kind: Attempted, Instance: a.Instance, Revision: f.service.Revision, Attempt: Attempt{
		Outcome: attempt.Outcome, Reason: attempt.Reason, Code: attempt.Code, Extra: f.extra, Latency: attempt.Latency,
		Start: f.running, Observed: observed, True: a.Machine.trueTime(observed),
	}})
}

// wake is what an agent that keeps the schedule does if it finds that it did
// not run for a while; slept tells that the machine knows of it. An attempt that
// was in flight is worth nothing, and neither is a session after long.
func (a *Agent) wake(gone time.Duration, slept bool) {
	const asleepBound = time.Second
	if a.planner == nil || a.dead {
		return
	}
	late := a.Machine.now().Sub(a.planner.Wake())
	if slept && gone < asleepBound || !slept && late < suspendedBound {
		return
	}
	dropped := a.flying
	a.flying = map[string]*flight{}
	inFlight := slices.Sorted(maps.Keys(dropped))
	suspended := func(f *flight) probe.Attempt {
		return Target{Reason: probe.Suspended}.attempt(f.service.Target, f.start, a.Machine.now())
	}
	asleep := time.Duration(0)
	if slept {
		asleep = gone
	}
	a.world.log(Event{Kind: Woke, Instance: a.Instance, Asleep: asleep})
	for _, name := range inFlight {
		a.attempted(dropped[name], suspended(dropped[name]))
	}
	a.planner.Suspended(a.Machine.now(), asleep)
	for _, name := range inFlight {
		a.planner.Done(dropped[name].planned, suspended(dropped[name]), a.Machine.now())
	}
	a.turn()
	if gone >= report.AckTimeout && a.session != nil {
		a.leave(errSuspended)
		a.Connect(0)
	}
}

// How late an attempt without an answer may be before that is the machine's
// fault, and before it is called a suspension.
const (
	lateBound      = 250 * time.Millisecond
	suspendedBound = 5 * time.Second
)

// attempt is what an attempt makes of the target.
func (r Target) attempt(t probe.Target, start, end time.Time) probe.Attempt {
	a := probe.Attempt{Reason: r.Reason, Start: start, End: end, Latency: end.Sub(start)}
	switch late := end.Sub(start) - probe.AttemptTimeout; {
	case r.Reason == probe.Timeout && late >= suspendedBound:
		a.Reason = probe.Suspended
	case r.Reason == probe.Timeout && late > lateBound:
		a.Reason = probe.Late
	case r.Reason == probe.OK && t.Path != "" && (r.Code < 200 || r.Code > 299):
		a.Reason = probe.BadStatus
	case r.Reason == probe.NoReason:
		a.Reason = probe.Refused
	}
	switch a.Reason {
	case probe.OK, probe.BadStatus:
		a.Code, a.Addr = r.Code, netip.AddrFrom4([4]byte{127, 0, 0, 1})
	case probe.Timeout, probe.Reset, probe.Closed, probe.NotHTTP, probe.HeadersTooLarge:
		a.Addr = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	switch a.Reason {
	case probe.OK:
		a.Outcome = probe.Pass
	case probe.NoResources, probe.Late, probe.Suspended, probe.Internal:
		a.Outcome = probe.Inconclusive
	default:
		a.Outcome = probe.Fail
	}
	return a
}
