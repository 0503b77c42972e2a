// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/gateway/session"
	"github.com/sandbox-agent/sandbox-agent/test/rig"
)

// poll is how often the client asks.
const poll = 50 * time.Millisecond

// stage is where a story plays.
type stage struct {
	t    *testing.T
	out  io.Writer
	line int

	world    *rig.World
	machine  *rig.Machine // the sandbox
	agent    *rig.Agent   // the newest
	session  *rig.Session // the latest that it had
	targets  map[uint16]*target
	chance   *rand.Rand
	seen     map[string]string // by service; the sandbox is ""
	promises []promise
}

// promise is something that must not be seen.
type promise struct {
	text   string
	broken func() string // "" while it is kept
}

func newStage(t *testing.T, out io.Writer) *stage {
	w := rig.New()
	w.Scheduled = true
	s := &stage{
		t: t, out: out, world: w, machine: w.NewMachine(), targets: map[uint16]*target{}, seen: map[string]string{},
		chance: rand.New(rand.NewPCG(1, 1)),
	}
	w.Aim = s.aim
	return s
}

// pass lets time pass, looking every 50 ms, until then says stop.
func (s *stage) pass(d time.Duration, stop func() bool) bool {
	for until := s.world.Now() + d; s.world.Now() < until; {
		next := (s.world.Now()/poll + 1) * poll
		s.world.Pass(min(next, until) - s.world.Now())
		s.look()
		if stop != nil && stop() {
			return true
		}
	}
	return false
}

// look asks for everything, and tells what is new.
func (s *stage) look() {
	if s.agent != nil && s.agent.Session() != nil {
		s.session = s.agent.Session()
	}
	s.news("", phases[s.world.Gateway.Phase()])
	for _, svc := range s.world.Store.Services {
		h := s.world.Gateway.Health(svc)
		s.news(svc.Name, fmt.Sprintf("%-9s %s", stateOf(h), h.GetReason()), h.GetMessage())
	}
	for _, p := range s.promises {
		if fault := p.broken(); fault != "" {
			s.t.Fatalf("line %d: %.3f: %s: %s", s.line, s.world.Now().Seconds(), p.text, fault)
		}
	}
}

// news tells an answer if it is another one than before. more does not make it
// one.
func (s *stage) news(service, answer string, more ...string) {
	if s.seen[service] == answer {
		return
	}
	s.seen[service] = answer
	name := service
	if name == "" {
		name = "sandbox"
	}
	line := fmt.Sprintf("> %8.3f  %-8s %-34s %s", s.world.Now().Seconds(), name, answer, strings.Join(more, ""))
	fmt.Fprintln(s.out, strings.TrimRight(line, " "))
}

var phases = map[health.Phase]string{
	health.Provisioning: "PROVISIONING", health.Ready: "READY", health.Error: "ERROR", health.Deleting: "DELETING",
	health.PhaseUnknown: "UNKNOWN", health.Stopping: "STOPPING", health.Stopped: "STOPPED", health.Starting: "STARTING",
}

func stateOf(h *openshellv1.ServiceHealth) string {
	return strings.TrimPrefix(h.GetState().String(), "SERVICE_HEALTH_STATE_")
}

// service returns a service that the story has exposed.
func (s *stage) service(name string) session.Service {
	svc, ok := s.world.Store.Service(name)
	if !ok {
		s.t.Fatalf("line %d: there is no service %q", s.line, name)
	}
	return svc
}

// read tells all that a client is told of a service.
func (s *stage) read(name string) {
	svc := s.service(name)
	h, a := s.world.Gateway.Health(svc), s.world.Gateway.Answer(svc)
	fmt.Fprintf(s.out, "> %8.3f  %s is %s, %s\n", s.world.Now().Seconds(), name, stateOf(h), h.GetReason())
	fmt.Fprintf(s.out, ">           %q\n", h.GetMessage())
	if a.Observation == nil {
		return
	}
	code := "none"
	if h.HttpStatusCode != nil {
		code = fmt.Sprint(h.GetHttpStatusCode())
	}
	address := h.GetAddress()
	if address == "" {
		address = "none"
	}
	age := func(at time.Time) time.Duration { return s.world.Gateway.Since(at).Round(time.Millisecond) }
	fmt.Fprintf(s.out, ">           status %s, address %s, latency %v, %d fails in a row\n",
		code, address, h.GetLatency().AsDuration(), h.GetConsecutiveFailures())
	fmt.Fprintf(s.out, ">           last checked %v ago, last transition %v ago\n", age(a.Observation.Latest), age(a.Observation.Since))
}
