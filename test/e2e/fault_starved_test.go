// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
	"github.com/sandbox-agent/sandbox-agent/test/e2e/faultkit"
)

// probes sums the attempts of a service by outcome.
func (s *site) probes(name, outcome string) int {
	s.t.Helper()
	n := 0.0
	for series, v := range s.agentMetrics() {
		if strings.HasPrefix(series, "sandbox_agent_probe_total{") && strings.Contains(series, fmt.Sprintf("service=%q", name)) &&
			strings.Contains(series, fmt.Sprintf("outcome=%q", outcome)) {
			n += v
		}
	}
	return int(n)
}

// busy starts a process that takes all the CPU it gets.
func busy(t *testing.T) (pid int) {
	t.Helper()
	cmd := exec.Command("sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd.Process.Pid
}

// T05: the agent gets 2 % of a CPU, and shares that with busy loops. A good
// target is never UNHEALTHY, a bad one never HEALTHY; and once the agent gets
// its share again, all is as it should be.
func TestT05Starved(t *testing.T) {
	t.Parallel()
	s := runningSite(t)
	client := s.client()
	x, bad := s.target(answer(200)), s.target(answer(500))
	s.exposeAll(client, "/ready", x, bad)
	w := s.watch(serviceOf(x), good(x)...)
	other := s.watch(serviceOf(bad), neverHealthy)
	w.untilState(15*time.Second, time.Time{}, sandbox.HealthHealthy)
	s.late(time.Now())
	t.Run("throttled", func(t *testing.T) {
		g := faultkit.NewThrottle(t, 2)
		g.Add(t, s.agent.Pid())
		for range 3 {
			g.Add(t, busy(t))
		}
		began := time.Now()
		if long() {
			s.during(3 * time.Minute)
		} else {
			s.during(time.Minute)
		}
		states := map[string]int{}
		for _, r := range w.since(began) {
			states[r.health.State.String()+"/"+r.health.Reason]++
		}
		t.Logf("answers for the good target: %v", states)
	})
	late := s.late(time.Now().Add(-time.Second))
	t.Logf("rounds were late by %v at most, %d of %d attempts on the good target inconclusive, %d failed", late.Round(time.Millisecond),
		s.probes(serviceOf(x), "inconclusive"), x.count(), s.probes(serviceOf(x), "fail"))
	if late < 100*time.Millisecond {
		t.Errorf("the agent was late by %v at most: it was not starved", late)
	}
	w.untilState(25*time.Second, time.Now(), sandbox.HealthHealthy)
	other.untilState(25*time.Second, time.Time{}, sandbox.HealthUnhealthy)
}

// T05: the agent is stopped in the middle of attempts, for 3 s each, while the
// target answers at once, or answers only then, or never. No fail is counted.
func TestT05StoppedInAttempts(t *testing.T) {
	t.Parallel()
	s := runningSite(t)
	x := s.target(answer(200))
	s.exposeAll(s.client(), "", x)
	w := s.watch(serviceOf(x), good(x)...)
	w.untilState(15*time.Second, time.Time{}, sandbox.HealthHealthy)
	for _, when := range []string{"at once", "after 2 s", "never"} {
		asked, heard := make(chan struct{}), make(chan struct{})
		var once sync.Once
		x.turn(func(x *target, c net.Conn) {
			first := false
			once.Do(func() { first = true })
			if !first {
				answer(200)(x, c)
				return
			}
			close(asked)
			<-heard
			switch when {
			case "at once":
				answer(200)(x, c)
			case "after 2 s":
				s.during(2 * time.Second)
				answer(200)(x, c)
			default:
				hang(x, c)
			}
		})
		<-asked
		faultkit.Pause(t, s.agent.Pid())
		close(heard)
		s.during(3 * time.Second)
		faultkit.Resume(t, s.agent.Pid())
		_, now := w.untilState(10*time.Second, time.Now(), sandbox.HealthHealthy)
		if now.health.Failures != 0 {
			t.Errorf("answered %s: %v", when, now)
		}
	}
	x.untilAsked(2 * interval)
	if fails, unsure := s.probes(serviceOf(x), "fail"), s.probes(serviceOf(x), "inconclusive"); fails != 0 || unsure == 0 {
		t.Errorf("%d fails and %d inconclusive attempts, want none and some", fails, unsure)
	}
	for _, r := range w.since(time.Time{}) {
		if r.health.Failures != 0 {
			t.Fatalf("a fail was counted: %v", r)
		}
	}
}

// Descriptors run out: the agent cannot observe, which is UNKNOWN after 15 s,
// and nobody's fault; once there are some again, a round tells.
func TestDescriptorsRunOut(t *testing.T) {
	t.Parallel()
	s := runningSite(t)
	client := s.client()
	x, bad := s.target(answer(200)), s.target(answer(500))
	s.exposeAll(client, "/ready", x, bad)
	w := s.watch(serviceOf(x), good(x)...)
	other := s.watch(serviceOf(bad), neverHealthy)
	w.untilState(15*time.Second, time.Time{}, sandbox.HealthHealthy)
	other.untilState(25*time.Second, time.Time{}, sandbox.HealthUnhealthy)
	restore := faultkit.Exhaust(t, s.agent.Pid())
	began := time.Now()
	_, now := w.untilState(25*time.Second, began, sandbox.HealthUnknown)
	if now.health.Reason != "Stale" {
		t.Errorf("%v, want Stale", now)
	}
	if asked := now.from.Sub(x.lastAnswered()); asked < 14500*time.Millisecond || asked > 16*time.Second {
		t.Errorf("UNKNOWN %v after the last answer", asked)
	}
	// A target that comes up now is not seen, and one that goes down neither.
	other.untilState(10*time.Second, now.from, sandbox.HealthUnknown)
	restore()
	back := time.Now()
	before, now := w.untilState(20*time.Second, back, sandbox.HealthHealthy)
	within(t, "HEALTHY again", back, before, now, 0, interval+time.Second, s.late(back))
	other.untilState(20*time.Second, back, sandbox.HealthUnhealthy)
}
