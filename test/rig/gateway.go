// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	supervisorv1 "github.com/sandbox-agent/sandbox-agent/api/supervisor/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/api"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/gateway/session"
)

const sandboxID = "sandbox"

// Gateway is the gateway's process.
type Gateway struct {
	// CleanUp is how late it notices the end of a session that was displaced,
	// Record how late the store learns of one that was accepted.
	CleanUp, Record time.Duration

	world    *World
	clock    clock
	started  time.Time
	cache    *health.Cache
	registry *session.Registry
	live     map[uint64]*Session
	stopped  bool
	backlog  []func() // what happens once it runs again
}

func (g *Gateway) now() time.Time { return g.clock.at(g.world.now) }

func (g *Gateway) start() {
	g.started, g.stopped, g.backlog = g.now(), false, nil
	g.cache, g.registry, g.live = health.NewCache(), session.NewRegistry(), map[uint64]*Session{}
	g.world.log(Event{Kind: GatewayStarted})
}

// Restart replaces the process. Agents learn of it as fast as the link is.
func (g *Gateway) Restart() {
	for _, id := range slices.Sorted(maps.Keys(g.live)) {
		s := g.live[id]
		s.ended = true
		s.Up.Cut()
		s.closeDown()
	}
	g.start()
}

// Freeze stops the process, as SIGSTOP does: what it receives waits. It can
// still be asked what it would answer.
func (g *Gateway) Freeze() { g.stopped = true }

// Thaw ends Freeze.
func (g *Gateway) Thaw() {
	backlog := g.backlog
	g.stopped, g.backlog = false, nil
	for _, f := range backlog {
		f()
	}
}

// do runs f now, or once the process runs.
func (g *Gateway) do(f func()) {
	if g.stopped {
		g.backlog = append(g.backlog, f)
		return
	}
	f()
}

// StepClock steps the gateway's wall clock by whole seconds.
func (g *Gateway) StepClock(by time.Duration) { g.clock.step += by }

// Answer is what the gateway answers for a service.
func (g *Gateway) Answer(svc session.Service) health.Answer { return g.AnswerIn(svc, 0) }

// AnswerIn is what the gateway will answer after d if nothing happens.
func (g *Gateway) AnswerIn(svc session.Service, d time.Duration) health.Answer {
	slot := g.slot()
	now := g.now().Add(d)
	return health.Evaluate(health.Endpoint{ID: svc.ID, Revision: svc.Revision, Generation: g.world.Store.Generation}, g.phase(slot, now), slot, now)
}

// Health is Answer as a client sees it.
func (g *Gateway) Health(svc session.Service) *openshellv1.ServiceHealth {
	return api.Health(g.Answer(svc), svc.Target.Path != "", g.now())
}

// Phase is the phase of the sandbox.
func (g *Gateway) Phase() health.Phase { return g.PhaseIn(0) }

// PhaseIn is what Phase will be after d if nothing happens.
func (g *Gateway) PhaseIn(d time.Duration) health.Phase { return g.phase(g.slot(), g.now().Add(d)) }

// PhaseExpires is the instant at which Phase changes if nothing happens, or
// zero.
func (g *Gateway) PhaseExpires() time.Time {
	return health.PhaseExpires(g.world.Store.lifecycle(), g.slot(), g.started, g.now())
}

// Since tells how much true time has passed since an instant that the gateway
// has stored.
func (g *Gateway) Since(at time.Time) time.Duration { return g.now().Sub(at) }

func (g *Gateway) slot() health.Slot { return g.cache.Slot(sandboxID) }

func (g *Gateway) phase(slot health.Slot, now time.Time) health.Phase {
	return health.PhaseOf(g.world.Store.lifecycle(), slot, g.started, now)
}

// admit answers a handshake. RetryAfter is set if the agent is to come back.
func (g *Gateway) admit(a *Agent) (ok bool, retry time.Duration) {
	if !g.world.Store.admitted(a.generation) {
		return false, 0
	}
	d := g.registry.Decide(sandboxID, a.generation, a.Instance, g.now())
	if !d.Accept {
		g.world.log(Event{Kind: Claimed, Instance: a.Instance, Generation: a.generation})
	}
	return d.Accept, d.RetryAfter
}

// claim gives the sandbox to a session that was admitted.
func (g *Gateway) claim(s *Session) bool {
	d := g.registry.Claim(sandboxID, s.id, s.generation, s.instance, g.now())
	g.world.log(Event{Kind: Claimed, Session: s.id, Instance: s.instance, Generation: s.generation, Accepted: d.Accept})
	if !d.Accept {
		return false
	}
	g.cache.Connected(sandboxID, s.id, s.generation, s.instance)
	if old := g.live[d.Displaced]; old != nil {
		old.closeDown()
		g.world.after(g.CleanUp, func() { g.do(func() { g.end(old) }) })
	}
	g.live[s.id] = s
	cache := g.cache
	g.world.after(g.Record, func() {
		if cache == g.cache { // otherwise the process has ended before
			g.do(func() { g.record(s) })
		}
	})
	g.open(s)
	return true
}

// record stores that a session was accepted, and ends it if the sandbox was
// asked for something else since.
func (g *Gateway) record(s *Session) {
	if g.world.Store.connected(s.generation) {
		g.world.log(Event{Kind: Recorded, Session: s.id, Generation: s.generation})
		return
	}
	s.closeDown()
	g.end(s)
}

// open begins the conversation.
func (g *Gateway) open(s *Session) {
	intake, first := session.NewIntake(g.cache, sandboxID, s.id, s.instance, g.world.Store.Services, g.now(), nil)
	s.intake, s.heard = intake, g.world.now
	g.told(s, first)
	g.world.log(Event{Kind: AckSent, Session: s.id})
	s.sendDown(&supervisorv1.GatewayMessage{Message: &supervisorv1.GatewayMessage_Desired{Desired: first}})
	g.watch(s)
}

// watch ends a session that stays without reports.
func (g *Gateway) watch(s *Session) {
	g.world.after(s.heard+session.ReportTimeout-g.world.now, func() { g.do(func() { g.silent(s) }) })
}

// silent is the timer of watch.
func (g *Gateway) silent(s *Session) {
	switch {
	case s.ended:
	case g.world.now-s.heard >= session.ReportTimeout:
		s.closeDown()
		g.end(s)
	default:
		g.watch(s)
	}
}

// refresh tells the holder's agent what is stored now.
func (g *Gateway) refresh() { g.do(g.tell) }

func (g *Gateway) tell() {
	s := g.live[g.registry.Holder(sandboxID)]
	if s == nil {
		return
	}
	if m, changed := s.intake.Desired(g.world.Store.Services); changed {
		g.told(s, m)
		s.sendDown(&supervisorv1.GatewayMessage{Message: &supervisorv1.GatewayMessage_Desired{Desired: m}})
	}
}

func (g *Gateway) told(s *Session, m *supervisorv1.DesiredState) {
	e := Event{Kind: Told, Session: s.id}
	for _, svc := range m.GetServices() {
		e.Revisions = append(e.Revisions, svc.GetRevision())
	}
	g.world.log(e)
}

// receive takes what a session says.
func (g *Gateway) receive(s *Session, b []byte) {
	if s.ended {
		return
	}
	var m supervisorv1.AgentMessage
	if err := proto.Unmarshal(b, &m); err != nil {
		panic(err)
	}
	g.world.log(Event{Kind: Received, Session: s.id, Sequence: m.GetReport().GetSequence()})
	taken, err := s.intake.Report(m.GetReport(), g.now())
	if err != nil {
		panic(err)
	}
	s.heard = g.world.now
	if taken.Stop != nil && taken.Stop.MainExited {
		g.world.exited(s.generation)
	}
	s.intake.Acknowledging(taken.Sequence, g.now())
	g.world.log(Event{Kind: AckSent, Session: s.id, Sequence: taken.Sequence})
	s.sendDown(&supervisorv1.GatewayMessage{Message: &supervisorv1.GatewayMessage_Ack{Ack: &supervisorv1.Ack{Sequence: taken.Sequence}}})
}

// end is the gateway noticing that a session has ended.
func (g *Gateway) end(s *Session) {
	if s.ended {
		return
	}
	s.ended = true
	delete(g.live, s.id)
	g.registry.Release(sandboxID, s.id)
	g.cache.Disconnected(sandboxID, s.id, g.now())
	g.world.log(Event{Kind: SessionEnded, Session: s.id})
}

// closeHolder ends the session that holds the sandbox, if one does.
func (g *Gateway) closeHolder() {
	if s := g.live[g.registry.Holder(sandboxID)]; s != nil {
		s.closeDown()
		g.end(s)
	}
}

func (s *Session) sendDown(m *supervisorv1.GatewayMessage) {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	s.Down.send(func() { s.agent.Machine.do(func() { s.agent.receive(s, b) }) })
}

// closeDown tells the agent that the session has ended.
func (s *Session) closeDown() {
	s.Down.send(func() { s.agent.Machine.do(func() { s.agent.lost(s, errClosed) }) })
}
