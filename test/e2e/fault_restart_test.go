// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

// T10: gateway and agent are restarted 20 times each, every other time without
// a warning, under polls of get and list. A good target is never UNHEALTHY, a
// bad one never HEALTHY, and no list is empty.
func TestT10Restarts(t *testing.T) {
	t.Parallel()
	s := runningSite(t)
	client := s.client()
	x, bad := s.target(answer(200)), s.target(answer(500))
	s.exposeAll(client, "/ready", x, bad)
	watches := []*watch{s.watch(serviceOf(x), good(x)...), s.watchBy("list", listServices(serviceOf(x)), good(x)...)}
	other := s.watch(serviceOf(bad), neverHealthy)
	otherList := s.watchBy("list", listServices(serviceOf(bad)), neverHealthy)
	right := func(after time.Time) {
		for _, w := range watches {
			w.untilState(30*time.Second, after, sandbox.HealthHealthy)
		}
	}
	right(time.Time{})
	for _, w := range []*watch{other, otherList} {
		w.untilState(30*time.Second, time.Time{}, sandbox.HealthUnhealthy)
	}
	began := time.Now()
	for i := range 20 {
		if i%2 == 0 {
			s.gateway.Kill()
		} else if code, err := s.gateway.Stop(); code != 0 || err != nil {
			t.Fatalf("the gateway ended with %d, %v", code, err)
		}
		s.gateway = s.bed.gateway()
		// Of the earlier process no answer can come any more.
		right(time.Now())
		if i%2 == 0 {
			s.agent.Kill()
		} else if code, err := s.agent.Stop(); code != 0 || err != nil {
			t.Fatalf("the agent ended with %d, %v", code, err)
		}
		at := time.Now()
		s.startAgent()
		watches[0].until(30*time.Second, at, "an answer of the new agent", func(r reading) bool {
			return r.health.State == sandbox.HealthHealthy && r.health.LastChecked.After(at)
		})
	}
	t.Logf("40 restarts in %.1f s", time.Since(began).Seconds())
	for _, w := range []*watch{other, otherList} {
		w.untilState(30*time.Second, time.Now(), sandbox.HealthUnhealthy)
	}
	states := map[string]int{}
	for _, r := range watches[0].since(began) {
		states[r.health.State.String()+"/"+r.health.Reason]++
	}
	t.Logf("answers for the good target: %v", states)
	if states["unknown/SupervisorDisconnected"] == 0 {
		t.Error("no answer from between two sessions: the poll has missed the restarts")
	}
}
