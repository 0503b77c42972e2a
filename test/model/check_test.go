// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"slices"
	"time"

	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/gateway/session"
	"github.com/sandbox-agent/sandbox-agent/probe"
	"github.com/sandbox-agent/sandbox-agent/test/rig"
)

// run plays a history and returns the first difference between the product and
// the reference, or "", and how often each answer was compared.
func run(history []op, scheduled bool) (difference string, compared map[answer]int) {
	p := newPlayer(scheduled)
	c := &checker{world: p.world, ref: reference{read: map[reading]said{}}, compared: map[answer]int{}}
	for _, o := range history {
		switch o.kind {
		case readAged:
			c.update()
			c.untilAged(o.name, o.d)
		case readLost:
			c.update()
			c.untilLost(o.d)
		default:
			p.play(o)
		}
		if o.kind == read || o.kind == readAged || o.kind == readLost {
			c.everything()
		}
		if c.difference != "" {
			return fmt.Sprintf("%v: %s", p.world.Now(), c.difference), c.compared
		}
	}
	c.everything()
	c.claims()
	c.timer()
	return c.difference, c.compared
}

// checker compares answers.
type checker struct {
	world      *rig.World
	ref        reference
	compared   map[answer]int
	difference string
}

func (c *checker) update() { c.ref.log = c.world.Log }

func (c *checker) failf(format string, args ...any) {
	if c.difference == "" {
		c.difference = fmt.Sprintf(format, args...)
	}
}

// untilAged lets time pass until what is known of a service is 15 s old, give
// or take d, unless that is far away.
func (c *checker) untilAged(name string, d time.Duration) {
	svc, ok := c.world.Store.Service(name)
	if !ok {
		return
	}
	if k := c.ref.knows(svc.ID); k.said != nil {
		c.until(k.said.agesFrom() + staleAfter + d)
	}
}

// untilLost lets time pass until the session was lost 15 s ago, give or take d.
func (c *checker) untilLost(d time.Duration) {
	if k := c.ref.knows(""); k.session == 0 && k.seen {
		c.until(k.lost + grace + d)
	}
}

func (c *checker) until(at time.Duration) {
	if d := at - c.world.Now(); d > 0 && d < 2*staleAfter {
		c.world.Pass(d)
	}
}

// everything compares what can be asked.
func (c *checker) everything() {
	c.update()
	if c.world.Stuck {
		c.failf("time stands still: each thing that happens causes the next")
		return
	}
	now := c.world.Now()
	if right, got := c.ref.knows("").phases(now), c.world.Gateway.Phase(); !slices.Contains(right, got) {
		c.failf("the sandbox is said to be in phase %d, right is %v", got, right)
	}
	for _, svc := range c.world.Store.Services {
		got := c.world.Gateway.Answer(svc)
		c.compared[answer{got.State, got.Reason}]++
		right, k := c.ref.answers(svc.ID, now)
		if !slices.Contains(right, answer{got.State, got.Reason}) {
			c.failf("%q is said to be %v %v, right is %v", svc.Name, got.State, got.Reason, right)
		}
		if got.Observation != nil {
			c.observation(svc.Name, k, *got.Observation)
		} else if got.Reason == health.NoReason {
			c.failf("%q is said to be %v, of no observation", svc.Name, got.State)
		}
		c.safe(svc.Name, svc.Revision, got)
		c.expires(svc, got)
	}
}

// expires holds what a watch relies on: an answer, or a phase, tells until when
// it stands if nothing happens.
func (c *checker) expires(svc session.Service, got health.Answer) {
	g := c.world.Gateway
	if at := -g.Since(got.Expires()); !got.Expires().IsZero() && at > 0 {
		before, after := g.AnswerIn(svc, at-1), g.AnswerIn(svc, at)
		if before.State != got.State || before.Reason != got.Reason || after.Reason != health.Stale {
			c.failf("%q: %v %v is to stand for %v; just before it is %v %v, then %v %v",
				svc.Name, got.State, got.Reason, at, before.State, before.Reason, after.State, after.Reason)
		}
	} else if later := g.AnswerIn(svc, time.Hour); later.State != got.State || later.Reason != got.Reason {
		c.failf("%q: %v %v is to stand for ever, and is %v %v after an hour", svc.Name, got.State, got.Reason, later.State, later.Reason)
	}
	if at := -g.Since(g.PhaseExpires()); !g.PhaseExpires().IsZero() {
		if before, after := g.PhaseIn(at-1), g.PhaseIn(at); before != g.Phase() || after == before {
			c.failf("phase %d is to stand for %v; just before it is %d, then %d", g.Phase(), at, before, after)
		}
	} else if later := g.PhaseIn(time.Hour); later != g.Phase() {
		c.failf("phase %d is to stand for ever, and is %d after an hour", g.Phase(), later)
	}
}

// observation compares what an answer says of the latest attempt.
func (c *checker) observation(name string, k known, got health.Observation) {
	s := k.said
	if s == nil || s.instance != k.instance || s.revision != k.revision {
		c.failf("%q: an observation of nothing: %+v", name, got)
		return
	}
	a := s.latest
	if got.Outcome != a.Outcome || got.Reason != a.Reason || got.Code != a.Code || got.State != s.state || got.Failures != s.failures {
		c.failf("%q: observed %v %v %d, %v with %d fails; right is %v %v %d, %v with %d",
			name, got.Outcome, got.Reason, got.Code, got.State, got.Failures, a.Outcome, a.Reason, a.Code, s.state, s.failures)
	}
	if got.Latency != a.Latency.Truncate(time.Microsecond) {
		c.failf("%q: latency %v, right is %v", name, got.Latency, a.Latency)
	}
	at := c.world.Now() - c.world.Gateway.Since(got.Latest)
	if at > a.True {
		c.failf("%q: the latest attempt was at %v, and is said to have been at %v", name, a.True, at)
	}
	if at > s.latestFrom || at < s.latestFrom-s.slack {
		c.failf("%q: the latest attempt is said to have been at %v; %v is proven, less at most %v", name, at, s.latestFrom, s.slack)
	}
	// An agent that keeps the schedule misses less than a second of a suspension.
	if c.world.Scheduled {
		since, change := c.world.Now()-c.world.Gateway.Since(got.Since), s.changed()
		if change != nil && since > change.True+time.Second {
			c.failf("%q: the state is said to have changed at %v; it did at %v", name, since, change.True)
		}
	}
	if s.conclusive == nil != got.Conclusive.IsZero() {
		c.failf("%q: the latest conclusive attempt is said to have been at %v, right is %v", name, got.Conclusive, s.conclusive)
	}
	if s.conclusive == nil {
		return
	}
	at = c.world.Now() - c.world.Gateway.Since(got.Conclusive)
	// What is not proven counts as stale, by whatever instant.
	if proven := s.conclusiveFrom; c.world.Now()-at < staleAfter && at > proven || proven != never && at < proven-s.slack {
		c.failf("%q: the latest conclusive attempt was at %v and is said to have been at %v; %v is proven, less at most %v",
			name, s.conclusive.True, at, proven, s.slack)
	}
}

// safe holds what must never happen, without the reference's help: a verdict
// of another life, another configuration or another generation, one that the
// attempts do not bear out, or one that is too old.
func (c *checker) safe(name string, revision uint64, got health.Answer) {
	if got.State == probe.Unknown {
		return
	}
	o := got.Observation
	var claimed, ended uint64
	var instance string
	var generation uint64
	for _, e := range c.world.Log {
		switch {
		case e.Kind == rig.Claimed && e.Accepted:
			claimed, instance, generation = e.Session, e.Instance, e.Generation
		case e.Kind == rig.SessionEnded:
			ended = e.Session
		}
	}
	if o.Instance != instance || claimed == ended || generation != c.world.Store.Generation || o.Revision != revision {
		c.failf("%q: a verdict of %s, revision %d, in session %d of generation %d (of %s, revision %d)",
			name, o.Instance, o.Revision, claimed, generation, instance, revision)
	}
	passes, fails := 0, 0
	newest := never
	for _, e := range c.world.Log[:c.reported(instance)] {
		if e.Kind != rig.Attempted || e.Instance != instance || e.Revision != revision {
			continue
		}
		switch e.Attempt.Outcome {
		case probe.Pass:
			passes++
			newest = e.Attempt.True
		case probe.Fail:
			if !e.Attempt.Extra {
				fails++
			}
			newest = e.Attempt.True
		}
	}
	if got.State == probe.Healthy && passes == 0 || got.State == probe.Unhealthy && fails < threshold {
		c.failf("%q is said to be %v after %d passes and %d fails that count", name, got.State, passes, fails)
	}
	if age := c.world.Now() - newest; age >= staleAfter {
		c.failf("%q is said to be %v by an attempt of %v ago", name, got.State, age)
	}
}

// reported returns where an instance made its latest report that was received.
func (c *checker) reported(instance string) (at int) {
	for _, e := range c.world.Log {
		if e.Kind != rig.Received {
			continue
		}
		if made := c.ref.report(e.Session, e.Sequence); c.world.Log[made].Instance == instance {
			at = max(at, made)
		}
	}
	return at
}

// claims holds the rule of who gets the sandbox: the newest session, but
// agents do not evict each other more than once a minute, and none of an earlier
// generation evicts one of a later.
func (c *checker) claims() {
	var holder rig.Event
	evicted := never
	for _, e := range c.world.Log {
		switch e.Kind {
		case rig.GatewayStarted:
			holder, evicted = rig.Event{}, never
		case rig.SessionEnded:
			if e.Session == holder.Session {
				holder = rig.Event{}
			}
		case rig.Claimed:
			right := true
			switch {
			case holder.Session == 0 || holder.Instance == e.Instance || holder.Generation < e.Generation:
			case holder.Generation > e.Generation || e.At-evicted < evictionRate:
				right = false
			default:
				evicted = e.At
			}
			if right != e.Accepted {
				c.failf("%v: session %d of %s was accepted: %v, right is %v", e.At, e.Session, e.Instance, e.Accepted, right)
			}
			if e.Accepted {
				holder = e
			}
		}
	}
}

// timer holds that what counts as made by the timer was: attempts of one
// service come an interval apart, less what a late round may make up for and
// what a service may wait for its turn.
func (c *checker) timer() {
	const least = 2 * time.Second
	latest := map[string]time.Duration{}
	for _, e := range c.world.Log {
		if e.Kind != rig.Attempted || e.Attempt.Extra || !c.world.Scheduled {
			continue
		}
		key := fmt.Sprint(e.Instance, " ", e.Revision)
		if before, ok := latest[key]; ok && e.Attempt.Start-before < least {
			c.failf("%s: attempts by the timer at %v and %v", key, before, e.Attempt.Start)
		}
		latest[key] = e.Attempt.Start
	}
}
