// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/sandbox-agent/sandbox-agent/api/supervisor/v1"
	"github.com/sandbox-agent/sandbox-agent/mux"
	"github.com/sandbox-agent/sandbox-agent/probe"
	"github.com/sandbox-agent/sandbox-agent/report"
	"github.com/sandbox-agent/sandbox-agent/report/wire"
)

var (
	errClosed    = errors.New("the gateway has closed the session")
	errNoAck     = errors.New("no acknowledgement")
	errMayGo     = errors.New("the last report was acknowledged")
	errSuspended = errors.New("the session cannot be trusted any more")
	errNoAnswer  = errors.New("the gateway does not answer")
	errRefused   = errors.New("the gateway has refused the session")
)

// Agent is one life of an agent.
type Agent struct {
	Machine  *Machine
	Instance string

	world      *World
	generation uint64 // of its token
	tracker    *report.Tracker
	planner    *probe.Planner          // of a scheduled world
	judges     map[uint64]*probe.Judge // of any other, by revision
	list       []probe.Service
	flying     map[string]*flight
	session    *Session
	redial     mux.Redial
	dead       bool
	turns      uint64
}

// StartAgent begins the life of an agent, with a token of the sandbox's
// current generation. In a scheduled world it dials at once, and its first
// round is due an interval later.
func (w *World) StartAgent(m *Machine) *Agent {
	w.instances++
	a := &Agent{
		Machine: m, Instance: fmt.Sprintf("agent-%d", w.instances), world: w, generation: w.Store.Generation,
		tracker: report.NewTracker(), judges: map[uint64]*probe.Judge{}, flying: map[string]*flight{},
	}
	m.agents = append(m.agents, a)
	w.log(Event{Kind: AgentStarted, Instance: a.Instance})
	if w.Scheduled {
		a.planner = probe.NewPlanner(a.tracker, m.now().Add(probe.Interval))
		m.do(func() { a.turn(); a.Connect(0) })
	}
	return a
}

// Dead reports whether the agent's life has ended.
func (a *Agent) Dead() bool { return a.dead }

// Session is the session that the agent believes to have, or nil.
func (a *Agent) Session() *Session { return a.session }

// Kill ends the process. Its sockets close, which the gateway notices if the
// link lets it.
func (a *Agent) Kill() {
	if a.dead {
		return
	}
	a.die()
	a.leave(nil)
}

func (a *Agent) die() {
	a.dead = true
	a.Machine.agents = slices.DeleteFunc(a.Machine.agents, func(other *Agent) bool { return other == a })
}

// Leave makes every report from now on say that the agent leaves, because the
// main process has exited or because it was asked to.
func (a *Agent) Leave(exited bool, code int) {
	if a.dead {
		return
	}
	a.Machine.do(func() {
		a.world.log(Event{Kind: Leaving, Instance: a.Instance})
		a.tracker.Stop(report.Stop{MainExited: exited, ExitCode: code})
		a.publish()
	})
}

// Connect dials the gateway, having given up what session there was without
// the gateway knowing. The gateway admits it at once, and gives it the sandbox
// after the given delay.
func (a *Agent) Connect(delay time.Duration) {
	if a.dead || a.Machine.stopped {
		return
	}
	if a.session != nil {
		a.session.left, a.session = true, nil
	}
	w := a.world
	if w.Gateway.stopped {
		a.retry(errNoAnswer)
		return
	}
	ok, retry := w.Gateway.admit(a)
	if !ok {
		a.retry(&mux.RefusedError{RetryAfter: retry})
		return
	}
	w.sessions++
	s := &Session{id: w.sessions, agent: a, instance: a.Instance, generation: a.generation, Up: &Pipe{world: w}, Down: &Pipe{world: w}}
	a.session = s
	cache := w.Gateway.cache
	w.after(delay, func() {
		if cache != w.Gateway.cache { // of a process that has ended
			a.Machine.do(func() { a.lost(s, errClosed) })
			return
		}
		w.Gateway.do(func() { a.claim(s) })
	})
}

// claim is the end of a handshake.
func (a *Agent) claim(s *Session) {
	switch {
	case !a.world.Gateway.claim(s):
		a.Machine.do(func() { a.lost(s, errRefused) })
	case s.left:
		a.close(s)
	}
}

// Break ends the session. Each side is told or not: an agent that is not told
// finds out when no acknowledgement comes, a gateway when no report does.
func (a *Agent) Break(tellAgent, tellGateway bool) {
	s := a.session
	if s == nil {
		return
	}
	if tellGateway && s.intake != nil {
		a.world.Gateway.do(func() { a.world.Gateway.end(s) })
	}
	s.Up.Cut()
	s.Down.Cut()
	if tellAgent {
		a.Machine.do(func() { a.lost(s, errClosed) })
	}
}

// leave gives the session up, and the gateway is told.
func (a *Agent) leave(reason error) {
	s := a.session
	if s == nil {
		return
	}
	a.session, s.left, s.reason = nil, true, reason
	a.close(s)
}

// close tells the gateway, if that has the session, that it has ended.
func (a *Agent) close(s *Session) {
	g := a.world.Gateway
	s.Up.send(func() {
		g.do(func() {
			if s.intake != nil {
				g.end(s)
			}
		})
	})
}

// lost is the agent noticing that a session is no more.
func (a *Agent) lost(s *Session, err error) {
	if a.dead || a.session != s {
		return
	}
	a.leave(err)
	a.retry(err)
}

// retry dials again, after a while, in a scheduled world.
func (a *Agent) retry(err error) {
	if a.planner == nil || a.dead {
		return
	}
	const chance = 0.5
	a.Machine.after(a.redial.Failed(err, chance), func() {
		if a.session == nil {
			a.Connect(0)
		}
	})
}

// receive takes what the gateway says.
func (a *Agent) receive(s *Session, b []byte) {
	if a.dead || a.session != s {
		return
	}
	var m supervisorv1.GatewayMessage
	if err := proto.Unmarshal(b, &m); err != nil {
		panic(err)
	}
	if d := m.GetDesired(); d != nil {
		a.desired(s, d)
		return
	}
	seq := m.GetAck().GetSequence()
	a.acked(s, seq)
	if s.pacer.Acked(seq, a.Machine.now()) {
		a.leave(errMayGo)
		a.die()
		return
	}
	if s.pacer.Again() && a.planner != nil {
		a.planner.ProbeNow(a.Machine.now())
		a.turn()
	}
	a.publish()
}

func (a *Agent) acked(s *Session, seq uint64) {
	a.world.log(Event{Kind: AckReceived, Session: s.id, Instance: a.Instance, Sequence: seq, Agent: a.Machine.running()})
}

// desired takes a list over; the first one opens the session.
func (a *Agent) desired(s *Session, d *supervisorv1.DesiredState) {
	list, bad, err := wire.DecodeDesired(d)
	if err != nil || len(bad) > 0 {
		panic(fmt.Sprint(err, bad))
	}
	opens := s.pacer == nil
	if opens {
		s.pacer = report.NewPacer(a.Machine.now())
		a.acked(s, 0)
	}
	a.takeOver(list)
	if opens && a.planner != nil {
		a.planner.ProbeNow(a.Machine.now())
	}
	a.turn()
	a.publish()
}

func (a *Agent) takeOver(list []probe.Service) {
	revisions := make([]uint64, len(list))
	for i, svc := range list {
		revisions[i] = svc.Revision
		if a.judges[svc.Revision] == nil {
			a.judges[svc.Revision] = probe.NewJudge(a.Machine.now())
		}
	}
	a.list = list
	a.world.log(Event{Kind: TookOver, Instance: a.Instance, Revisions: revisions})
	if a.planner == nil {
		a.tracker.Services(list, a.Machine.now())
		return
	}
	a.planner.SetServices(list, a.Machine.now())
	for _, f := range a.flying {
		if !slices.Contains(list, f.service) {
			a.end(f, Target{Reason: probe.Internal}) // it was cancelled
		}
	}
}

// publish sends a report if one is due.
func (a *Agent) publish() {
	s := a.session
	if a.dead || s == nil || s.pacer == nil {
		return
	}
	select {
	case <-a.tracker.Ready():
		s.pacer.Ready()
	default:
	}
	r, ok := s.pacer.Next(a.tracker.Snapshot, a.Machine.now())
	if !ok {
		return
	}
	a.world.log(Event{Kind: Reported, Session: s.id, Instance: a.Instance, Sequence: r.Sequence, Agent: a.Machine.running()})
	b, err := proto.Marshal(&supervisorv1.AgentMessage{Message: &supervisorv1.AgentMessage_Report{Report: wire.Encode(r)}})
	if err != nil {
		panic(err)
	}
	g := a.world.Gateway
	s.Up.send(func() { g.do(func() { g.receive(s, b) }) })
	s.sent = r.Sequence
	a.Machine.after(report.AckTimeout, func() {
		if s.sent == r.Sequence && s.pacer.Waiting() {
			a.lost(s, errNoAck)
		}
	})
}
