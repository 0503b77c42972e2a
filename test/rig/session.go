// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"time"

	"github.com/sandbox-agent/sandbox-agent/gateway/session"
	"github.com/sandbox-agent/sandbox-agent/report"
)

// Session is one session, both ends and the link between them.
type Session struct {
	// Up carries what the agent says, Down what the gateway says.
	Up, Down *Pipe

	id         uint64
	agent      *Agent
	instance   string
	generation uint64

	intake *session.Intake // the gateway's end
	ended  bool            // the gateway knows that it has ended
	heard  time.Duration   // when the gateway received last

	pacer  *report.Pacer // the agent's end; nil until the first message came
	sent   uint64        // sequence of the latest report
	left   bool          // the agent has left it
	reason error         // why, if the agent knows
}

// Pipe is one direction of a session: what goes in comes out in order, late,
// or never.
type Pipe struct {
	// Delay is how long whatever is sent from now on is under way.
	Delay time.Duration

	world *World
	last  time.Duration // when the latest message arrives
	held  bool
	cut   bool
	queue []func() // while held
}

// Hold keeps back what is sent from now on.
func (p *Pipe) Hold() { p.held = true }

// Release lets go of what was held.
func (p *Pipe) Release() {
	queue := p.queue
	p.held, p.queue = false, nil
	for _, arrive := range queue {
		p.send(arrive)
	}
}

// Cut loses what is held, under way, or sent from now on. Nobody is told.
func (p *Pipe) Cut() { p.cut, p.queue = true, nil }

func (p *Pipe) send(arrive func()) {
	switch {
	case p.cut:
	case p.held:
		p.queue = append(p.queue, arrive)
	default:
		p.last = max(p.last, p.world.now+p.Delay)
		p.world.after(p.last-p.world.now, func() {
			if !p.cut {
				arrive()
			}
		})
	}
}
