// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
	"github.com/sandbox-agent/sandbox-agent/test/e2e/faultkit"
)

// T12: a whole sandbox is frozen: UNKNOWN 15 s after the last observation,
// HEALTHY within 6 s of the thaw, never UNHEALTHY. Then again for less time
// than that, which the session survives.
func TestT12Frozen(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	g := faultkit.NewFreezer(t)
	s := &site{bed: b, gateway: b.gateway()}
	s.locate()
	s.cli("sandbox", "create", box, "--driver", "local", "--expose", "8080", "--", "python3", "-m", "http.server", "8080")
	s.expose("bad", 8080, "/not-there")
	w, other := s.watch("", neverUnhealthy), s.watch("bad", neverHealthy)
	w.untilState(20*time.Second, time.Time{}, sandbox.HealthHealthy)
	other.untilState(20*time.Second, time.Time{}, sandbox.HealthUnhealthy)
	pids := faultkit.Descendants(s.gateway.Pid())
	if len(pids) != 2 {
		t.Fatalf("the sandbox has %d processes, want the agent and its command", len(pids))
	}
	g.Add(t, pids...)

	freeze := 20 * time.Second
	if long() {
		freeze = time.Minute
	}
	frozen := time.Now()
	g.Freeze(t)
	w.untilState(30*time.Second, frozen, sandbox.HealthUnknown)
	s.unknownInTime([]*watch{w}, frozen, false)
	s.during(time.Until(frozen.Add(freeze)))
	s.thaw(g, w)
	for _, short := range []time.Duration{3 * time.Second, 8 * time.Second, 12 * time.Second} {
		g.Freeze(t)
		s.during(short)
		s.thaw(g, w)
	}
}

// proofError is how much earlier than the truth the gateway may date an
// observation (health.Proof); the first one after a thaw is made at once.
const proofError = 150 * time.Millisecond

// thaw ends a freeze and checks that an observation from after it comes in time.
func (s *site) thaw(g *faultkit.Group, w *watch) {
	s.t.Helper()
	thawed := time.Now()
	g.Thaw(s.t)
	before, now := w.until(20*time.Second, thawed, "an observation after the thaw", func(r reading) bool {
		return r.health.State == sandbox.HealthHealthy && r.health.LastChecked.After(thawed.Add(-proofError))
	})
	within(s.t, "HEALTHY again", thawed, before, now, 0, 6*time.Second, 0)
}

// D3: an agent is frozen right when the target has answered, so that what it
// observed is flushed by the thaw, 4 or 13 s later: in neither case is it fresh
// then. neverAhead watches.
func TestD3Thawed(t *testing.T) {
	t.Parallel()
	s := runningSite(t)
	g := faultkit.NewFreezer(t)
	x := s.target(answer(200))
	s.exposeAll(s.client(), "", x)
	w := s.watch(serviceOf(x), good(x)...)
	w.untilState(15*time.Second, time.Time{}, sandbox.HealthHealthy)
	g.Add(t, s.agent.Pid())
	for _, frozen := range []time.Duration{4 * time.Second, 13 * time.Second, 4 * time.Second} {
		x.untilAsked(2 * interval)
		g.Freeze(t)
		s.during(frozen)
		s.thaw(g, w)
	}
}
