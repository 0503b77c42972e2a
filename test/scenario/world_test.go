// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"

	"github.com/sandbox-agent/sandbox-agent/probe"
	"github.com/sandbox-agent/sandbox-agent/test/rig"
)

// sandboxCommands are what happens to the sandbox, its services and its agent.
func sandboxCommands() []command {
	return []command{
		{"expose NAME on PORT", func(s *stage, a args) error {
			s.world.Expose(a["NAME"], probe.Target{Port: a.number(s, "PORT")})
			return nil
		}},
		{"expose NAME on PORT ready at PATH", func(s *stage, a args) error {
			s.world.Expose(a["NAME"], probe.Target{Port: a.number(s, "PORT"), Path: a["PATH"]})
			return nil
		}},
		{"delete NAME", func(s *stage, a args) error {
			s.world.Delete(a["NAME"])
			delete(s.seen, a["NAME"])
			return nil
		}},
		simply("agent starts", (*stage).start),
		simply("agent restarts", func(s *stage) { s.agent.Kill(); s.start() }),
		simply("agent is killed", func(s *stage) { s.agent.Kill() }),
		simply("agent is asked to stop", func(s *stage) { s.agent.Leave(false, 0) }),
		simply("another agent starts elsewhere", func(s *stage) { s.agent = s.world.StartAgent(s.world.NewMachine()) }),
		{"main process exits with CODE", func(s *stage, a args) error {
			s.agent.Leave(true, int(a.number(s, "CODE")))
			return nil
		}},
		simply("sandbox freezes", func(s *stage) { s.machine.Freeze() }),
		simply("sandbox thaws", func(s *stage) { s.machine.Thaw() }),
		simply("sandbox is suspended", func(s *stage) { s.machine.Suspend() }),
		simply("sandbox resumes", func(s *stage) { s.machine.Thaw() }),
		simply("sandbox is asked to stop", func(s *stage) { s.world.Stop() }),
		simply("sandbox has stopped", func(s *stage) { s.world.Stopped(s.agent) }),
		simply("sandbox is started", func(s *stage) { s.world.Start() }),
		{"clock of the sandbox steps TIME", func(s *stage, a args) error {
			s.machine.StepClock(a.duration(s, "TIME"))
			return nil
		}},
	}
}

func (s *stage) start() { s.agent = s.world.StartAgent(s.machine) }

// linkCommands are what happens to the gateway and to the way there.
func linkCommands() []command {
	list := []command{
		simply("gateway freezes", func(s *stage) { s.world.Gateway.Freeze() }),
		simply("gateway thaws", func(s *stage) { s.world.Gateway.Thaw() }),
		simply("gateway restarts", func(s *stage) { s.world.Gateway.Restart() }),
		{"gateway notices displaced sessions TIME late", func(s *stage, a args) error {
			s.world.Gateway.CleanUp = a.duration(s, "TIME")
			return nil
		}},
		{"clock of the gateway steps TIME", func(s *stage, a args) error {
			s.world.Gateway.StepClock(a.duration(s, "TIME"))
			return nil
		}},
		simply("session breaks", func(s *stage) { s.agent.Break(true, true) }),
		simply("session breaks unnoticed by the agent", func(s *stage) { s.agent.Break(false, true) }),
		simply("session breaks unnoticed by the gateway", func(s *stage) { s.agent.Break(true, false) }),
		simply("session breaks unnoticed", func(s *stage) { s.agent.Break(false, false) }),
	}
	for word, pipe := range map[string]func(*rig.Session) *rig.Pipe{
		"reports":          func(s *rig.Session) *rig.Pipe { return s.Up },
		"acknowledgements": func(s *rig.Session) *rig.Pipe { return s.Down },
	} {
		with := func(do func(*stage, *rig.Pipe, args)) func(*stage, args) error {
			return func(s *stage, a args) error {
				if s.session == nil {
					return errors.New("there is no session")
				}
				do(s, pipe(s.session), a)
				return nil
			}
		}
		list = append(
			list,
			command{word + " are held", with(func(_ *stage, p *rig.Pipe, _ args) { p.Hold() })},
			command{word + " are let go", with(func(_ *stage, p *rig.Pipe, _ args) { p.Release() })},
			command{word + " are lost", with(func(_ *stage, p *rig.Pipe, _ args) { p.Cut() })},
			command{word + " take TIME", with(func(s *stage, p *rig.Pipe, a args) { p.Delay = a.duration(s, "TIME") })},
		)
	}
	return list
}
