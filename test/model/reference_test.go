// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"iter"
	"slices"
	"time"

	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/probe"
	"github.com/sandbox-agent/sandbox-agent/test/rig"
)

// The numbers of the contract, 2.1 to 2.3 and 5.
const (
	threshold    = 3
	staleAfter   = 15 * time.Second
	grace        = 15 * time.Second
	evictionRate = time.Minute
)

// reference answers from a list of what has happened.
type reference struct {
	log []rig.Event
	// read keeps what reports say: it never changes, and is asked at every read.
	read map[reading]said
}

type reading struct {
	at      int
	service string
}

// verdict is what the state machine of 2.2 says of a list of attempts.
type verdict struct {
	state      probe.State
	failures   int
	latest     *rig.Attempt
	conclusive *rig.Attempt
	attempts   []rig.Attempt
	lapsed     bool // the latest attempt came when the verdict was stale
}

// judge looks at all attempts of one service in one configuration.
func judge(attempts []rig.Attempt) (v verdict) {
	v.attempts = attempts
	// Only what the timer made can be held against a service, and a pass is a
	// pass whoever made it.
	var counted []rig.Attempt
	passed := false
	for i, a := range attempts {
		if a.Outcome == probe.NoOutcome { // a suspension
			counted = append(counted, a)
			continue
		}
		v.latest = &attempts[i]
		if v.conclusive != nil && a.Observed-v.conclusive.Observed >= staleAfter {
			// The verdict has gone stale meanwhile: it was UNKNOWN.
			passed, counted = false, nil
			v.lapsed = i == len(attempts)-1
		}
		if a.Outcome == probe.Pass || a.Outcome == probe.Fail {
			v.conclusive = &attempts[i]
		}
		switch {
		case a.Outcome == probe.Pass:
			passed, counted = true, nil
		case !a.Extra:
			counted = append(counted, a)
		}
	}
	if passed {
		v.state = probe.Healthy
	}
	for i := range counted {
		row := 0
		for i+row < len(counted) && counted[i+row].Outcome == probe.Fail {
			row++
		}
		if row >= threshold {
			v.state = probe.Unhealthy
		}
		if i+row == len(counted) && row > v.failures {
			v.failures = row
		}
	}
	return v
}

// changed is the attempt that changed the state last, or nil.
func (v verdict) changed() (change *rig.Attempt) {
	state := probe.Unknown
	for i := range v.attempts {
		so := judge(v.attempts[:i+1])
		if so.state != state || so.lapsed && state != probe.Unknown {
			state, change = so.state, &v.attempts[i]
		}
	}
	return change
}

// said is what a report says of one service, with the instants that it proves.
type said struct {
	instance string
	revision uint64
	verdict
	// The latest attempt, and the latest conclusive one, were not before these
	// true times; never is before all time.
	latestFrom, conclusiveFrom time.Duration
	// slack is how much earlier the gateway may take them to be.
	slack   time.Duration
	proven  bool
	leaving bool // the agent says that it leaves
}

// agesFrom is what counts for the age of the answer: an inconclusive attempt
// does not refresh a verdict, but is better than nothing.
func (s said) agesFrom() time.Duration {
	if s.conclusive == nil {
		return s.latestFrom
	}
	return s.conclusiveFrom
}

const never = -1000 * time.Hour

// before yields what happened before event at.
func (r *reference) before(at int) iter.Seq[*rig.Event] {
	return func(yield func(*rig.Event) bool) {
		for i := range at {
			if !yield(&r.log[i]) {
				return
			}
		}
	}
}

// report is a Reported event and what belongs to it.
func (r *reference) report(session, sequence uint64) (at int) {
	for i := range r.log {
		if e := &r.log[i]; e.Kind == rig.Reported && e.Session == session && e.Sequence == sequence {
			return i
		}
	}
	return -1
}

// attempts of an instance at a revision before event at.
func (r *reference) attempts(at int, instance string, revision uint64) (list []rig.Attempt) {
	for e := range r.before(at) {
		switch {
		case e.Instance != instance:
		case e.Kind == rig.Attempted && e.Revision == revision:
			list = append(list, e.Attempt)
		case e.Kind == rig.Woke && len(list) > 0:
			// What was before and what comes after is not in a row, and is
			// longer ago than the clock says.
			for i := range list {
				list[i].Start -= e.Asleep
				list[i].Observed -= e.Asleep
			}
			list = append(list, rig.Attempt{})
		}
	}
	return list
}

// list of revisions that an instance was to observe at event at.
func (r *reference) list(at int, instance string) (revisions []uint64) {
	for e := range r.before(at) {
		if e.Kind == rig.TookOver && e.Instance == instance {
			revisions = e.Revisions
		}
	}
	return revisions
}

// service that a revision is a configuration of.
func (r *reference) service(revision uint64) string {
	for e := range r.before(len(r.log)) {
		if e.Kind == rig.Configured && e.Revision == revision {
			return e.Service
		}
	}
	return ""
}

// proof is an acknowledgement: when it was sent, in true time, and when it was
// received, on the agent's clock.
type proof struct {
	sent, received time.Duration
	slack          time.Duration
}

// proofOf is the last acknowledgement that had come, in the session of the
// report at event at, before the oldest attempt began that anything fresh in
// the report rests on.
func (r *reference) proofOf(at int) (p proof) {
	made := r.log[at]
	oldest := made.Agent
	for _, revision := range r.list(at, made.Instance) {
		v := judge(r.attempts(at, made.Instance, revision))
		for _, a := range []*rig.Attempt{v.latest, v.conclusive} {
			if a != nil && made.Agent-a.Observed < staleAfter && a.Start < oldest {
				oldest = a.Start
			}
		}
	}
	var sequence uint64
	for e := range r.before(at) {
		if e.Kind == rig.AckReceived && e.Session == made.Session && (e.Sequence == 0 || e.Agent <= oldest) {
			sequence, p.received = e.Sequence, e.Agent
		}
	}
	for e := range r.before(at) {
		if e.Kind == rig.AckSent && e.Session == made.Session && e.Sequence == sequence {
			p.sent = e.At
		}
	}
	// The gateway may count acknowledgements that are less than 100 ms apart as
	// the earlier one.
	for e := range r.before(at) {
		if e.Kind == rig.AckSent && e.Session == made.Session && e.Sequence < sequence && p.sent-e.At < 100*time.Millisecond {
			p.slack = 100 * time.Millisecond
		}
	}
	return p
}

// says is what the report that was received at event at says of a service. It
// says nothing, so that latest is nil, if the service was not attempted.
func (r *reference) says(at int, service string) said {
	if s, known := r.read[reading{at, service}]; known {
		return s
	}
	s := r.decode(at, service)
	r.read[reading{at, service}] = s
	return s
}

func (r *reference) decode(at int, service string) (s said) {
	made := r.report(r.log[at].Session, r.log[at].Sequence)
	s.instance = r.log[made].Instance
	for _, revision := range r.list(made, s.instance) {
		if r.service(revision) == service {
			s.revision = revision
		}
	}
	for e := range r.before(made) {
		if e.Kind == rig.Leaving && e.Instance == s.instance {
			s.leaving = true
		}
	}
	s.verdict = judge(r.attempts(made, s.instance, s.revision))
	if s.latest == nil {
		return s
	}
	p := r.proofOf(made)
	from := func(a *rig.Attempt) time.Duration {
		if a.Observed < p.received {
			return never
		}
		if whole := time.Millisecond; a.Observed%whole+p.received%whole+r.log[made].Agent%whole > 0 {
			// On the wire an age is a whole number of milliseconds.
			s.slack = 2 * whole
		}
		return min(p.sent+a.Observed-p.received, r.log[at].At)
	}
	s.latestFrom = from(s.latest)
	s.conclusiveFrom = never
	if s.conclusive != nil {
		s.conclusiveFrom = from(s.conclusive)
	}
	s.slack += p.slack
	s.proven = s.latestFrom != never && r.told(at, s.revision)
	return s
}

// told reports whether, at event at, a revision is in the list that the session
// was told last, or in the one before: a report that was under way can name that.
func (r *reference) told(at int, revision uint64) bool {
	var last, before []uint64
	for e := range r.before(at) {
		if e.Kind == rig.Told && e.Session == r.log[at].Session {
			last, before = e.Revisions, last
		}
	}
	return slices.Contains(last, revision) || slices.Contains(before, revision)
}

// known is what the gateway knows at one moment.
type known struct {
	generation uint64
	asked      health.Phase
	exited     bool
	session    uint64 // live one of the current generation; 0 if there is none
	instance   string // its agent
	seen       bool   // there was one
	lost       time.Duration
	recorded   bool   // the store knows that there was one
	revision   uint64 // of the service
	said       *said  // last of the service
}

// knows is what the gateway knows of a service after all that has happened.
func (r *reference) knows(service string) (k known) {
	k.generation, k.asked = 1, health.Ready
	for at := range r.log {
		e := &r.log[at]
		switch e.Kind {
		case rig.GatewayStarted:
			// All that is left is what was on disk.
			k.session, k.seen, k.lost, k.said = 0, k.recorded, e.At, nil
		case rig.Asked:
			k.asked = e.Phase
			if e.Phase == health.Starting {
				k = known{generation: e.Generation, asked: e.Phase, revision: k.revision}
			}
		case rig.Exited:
			k.exited = true
		case rig.Configured:
			if e.Service == service {
				k.revision = e.Revision
			}
		case rig.Claimed:
			if e.Accepted && e.Generation == k.generation {
				k.session, k.instance, k.seen = e.Session, e.Instance, true
			}
		case rig.Recorded:
			// An exit was that of an earlier life of the agent.
			k.asked, k.exited, k.recorded = health.Ready, false, true
		case rig.SessionEnded:
			if e.Session == k.session {
				k.session, k.lost = 0, e.At
			}
		case rig.Received:
			r.receive(&k, at, service)
		}
	}
	return k
}

func (r *reference) receive(k *known, at int, service string) {
	if r.log[at].Session != k.session || k.session == 0 {
		return
	}
	s := r.says(at, service)
	if s.proven {
		if old := k.said; old != nil && old.instance == s.instance && old.revision == s.revision {
			// Both prove something of the same attempt, or the newer one is of
			// a later attempt.
			s.latestFrom, s.conclusiveFrom = max(s.latestFrom, old.latestFrom), max(s.conclusiveFrom, old.conclusiveFrom)
			s.slack = max(s.slack, old.slack)
		}
		k.said = &s
	}
	if s.leaving {
		k.session, k.lost = 0, r.log[at].At
	}
}

// phases that the sandbox may be said to be in.
func (k known) phases(now time.Duration) []health.Phase {
	switch {
	case k.asked == health.Stopping || k.asked == health.Stopped:
		return []health.Phase{k.asked}
	case k.exited:
		return []health.Phase{health.Error}
	case k.session != 0:
		return []health.Phase{health.Ready}
	case !k.seen && k.asked == health.Starting:
		return []health.Phase{health.Starting}
	case !k.seen:
		return []health.Phase{health.Provisioning}
	case now-k.lost < grace:
		return []health.Phase{health.Ready}
	}
	return []health.Phase{health.PhaseUnknown}
}

// answer is a state or the reason why there is none.
type answer struct {
	state  probe.State
	reason health.Reason
}

// answers that are right for a service at an instant, and what they rest on.
func (r *reference) answers(service string, now time.Duration) (right []answer, k known) {
	k = r.knows(service)
	return k.answers(now), k
}

func (k known) answers(now time.Duration) []answer {
	unknown := func(r health.Reason) []answer { return []answer{{probe.Unknown, r}} }
	phase := k.phases(now)[0]
	switch {
	case phase == health.Stopped:
		return unknown(health.SandboxStopped)
	case phase != health.Ready && phase != health.PhaseUnknown:
		return unknown(health.SandboxNotReady)
	case k.session == 0:
		return unknown(health.SupervisorDisconnected)
	case k.said != nil && k.said.instance != k.instance:
		return unknown(health.RuntimeReplaced)
	case k.said != nil && k.said.revision != k.revision:
		return unknown(health.ConfigurationChanged)
	case k.said == nil:
		return unknown(health.NotObserved)
	}
	fresh := []answer{{k.said.state, health.NoReason}}
	if k.said.state == probe.Unknown && k.said.latest.Outcome == probe.Inconclusive {
		fresh = unknown(health.Inconclusive)
	}
	stale := unknown(health.Stale)
	switch {
	case now-k.said.agesFrom() >= staleAfter:
		return stale
	case now-k.said.agesFrom()+k.said.slack < staleAfter:
		return fresh
	}
	return append(fresh, stale...)
}
