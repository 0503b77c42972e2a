// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"time"

	"github.com/sandbox-agent/sandbox-agent/probe"
	"github.com/sandbox-agent/sandbox-agent/test/rig"
)

// op is one thing that is done to the world. It does nothing where it makes no
// sense, so that a history stays one when some of its ops are left out.
type op struct {
	kind   kind
	agent  int // which one, of the two newest
	name   string
	d      time.Duration
	yes    bool
	also   bool
	target rig.Target
}

type kind int

const (
	pass kind = iota
	attempt
	round
	expose
	remove
	start
	kill
	leave
	connect
	sever
	hold
	release
	delay
	restart
	cleanUp
	record
	freeze
	thaw
	freezeGateway
	thawGateway
	stepGateway
	stepMachine
	stop
	stopped
	begin
	aim
	read
	readAged
	readLost
)

// String names the op as a line of the history that is printed on a failure.
func (o op) String() string {
	switch o.kind {
	case pass:
		return fmt.Sprintf("pass %v", o.d)
	case attempt:
		off := map[bool]string{true: ", off the timer"}[o.yes]
		return fmt.Sprintf("agent %d attempts %q: %v %d in %v%s", o.agent, o.name, o.target.Reason, o.target.Code, o.target.Took, off)
	case aim:
		return fmt.Sprintf("target %q: %v %d in %v", o.name, o.target.Reason, o.target.Code, o.target.Took)
	case connect:
		return fmt.Sprintf("agent %d connects, and gets the sandbox after %v", o.agent, o.d)
	case sever:
		return fmt.Sprintf("session of agent %d breaks (agent told: %v, gateway told: %v)", o.agent, o.yes, o.also)
	case hold, release:
		return fmt.Sprintf("%s of agent %d: %s", pipes[o.yes], o.agent, words[o.kind])
	case delay:
		return fmt.Sprintf("%s of agent %d: delayed by %v", pipes[o.yes], o.agent, o.d)
	case expose:
		return fmt.Sprintf("expose %q, readiness %v", o.name, o.yes)
	case leave:
		return fmt.Sprintf("agent %d leaves (main process exited: %v)", o.agent, o.yes)
	case stopped:
		return fmt.Sprintf("the sandbox has stopped (its agents are killed: %v)", o.yes)
	case start:
		return fmt.Sprintf("an agent starts on machine %d (the one before is killed: %v)", o.agent, o.yes)
	case freeze:
		return fmt.Sprintf("machine of agent %d stands still (its clock too: %v)", o.agent, o.yes)
	}
	return fmt.Sprintf("%s (agent %d, %q, %v)", words[o.kind], o.agent, o.name, o.d)
}

var pipes = map[bool]string{true: "up", false: "down"}

var words = map[kind]string{
	round: "round ends", remove: "delete", kill: "kill", hold: "held", release: "let go", restart: "gateway restarts",
	cleanUp: "gateway cleans displaced sessions up late", thaw: "machine thaws", freezeGateway: "gateway freezes", thawGateway: "gateway thaws", stepGateway: "wall clock of the gateway steps",
	stepMachine: "wall clock of the machine steps", stop: "stop the sandbox",
	record: "the store learns of sessions late", begin: "start the sandbox", read: "read", readAged: "read when an observation is 15 s old", readLost: "read 15 s after the session",
}

// player plays ops.
type player struct {
	world    *rig.World
	machines [2]*rig.Machine
	agents   []*rig.Agent
}

func newPlayer(scheduled bool) *player {
	w := rig.New()
	w.Scheduled = scheduled
	return &player{world: w, machines: [2]*rig.Machine{w.NewMachine(), w.NewMachine()}}
}

// agent returns one of the two newest agents, or nil.
func (p *player) agent(i int) *rig.Agent {
	if i >= len(p.agents) {
		return nil
	}
	return p.agents[len(p.agents)-1-i]
}

func ports(name string) uint16 {
	return map[string]uint16{"": 8000, "web": 8001, "api": 8002}[name]
}

// play plays one op that is no read.
func (p *player) play(o op) {
	w := p.world
	switch o.kind {
	case pass:
		w.Pass(o.d)
	case expose:
		t := probe.Target{Port: ports(o.name)}
		if o.yes {
			t.Path = "/ready"
		}
		w.Expose(o.name, t)
	case remove:
		w.Delete(o.name)
	case restart:
		w.Gateway.Restart()
	case freezeGateway:
		w.Gateway.Freeze()
	case thawGateway:
		w.Gateway.Thaw()
	case cleanUp:
		w.Gateway.CleanUp = o.d
	case record:
		w.Gateway.Record = o.d
	case stepGateway:
		w.Gateway.StepClock(o.d)
	case stop:
		w.Stop()
	case stopped:
		if o.yes { // whoever runs the sandbox has seen to it
			w.Stopped(p.agents...)
		} else {
			w.Stopped()
		}
	case begin:
		w.Start()
	case aim:
		w.Targets[ports(o.name)] = o.target
	case start:
		if a := p.agent(0); a != nil && o.yes {
			a.Kill()
		}
		p.agents = append(p.agents, w.StartAgent(p.machines[o.agent]))
	default:
		if a := p.agent(o.agent); a != nil {
			p.act(a, o)
		}
	}
}

// act plays one op of an agent.
func (p *player) act(a *rig.Agent, o op) {
	switch o.kind {
	case attempt:
		a.Attempt(o.name, o.yes, o.target)
	case round:
		a.RoundEnded()
	case kill:
		a.Kill()
	case leave:
		a.Leave(o.yes, 1)
	case connect:
		a.Connect(o.d)
	case sever:
		a.Break(o.yes, o.also)
	case freeze:
		if o.yes {
			a.Machine.Suspend()
		} else {
			a.Machine.Freeze()
		}
	case thaw:
		a.Machine.Thaw()
	case stepMachine:
		a.Machine.StepClock(o.d)
	case hold, release, delay:
		s := a.Session()
		if s == nil {
			return
		}
		pipe := s.Down
		if o.yes {
			pipe = s.Up
		}
		switch o.kind {
		case hold:
			pipe.Hold()
		case release:
			pipe.Release()
		default:
			pipe.Delay = o.d
		}
	}
}
