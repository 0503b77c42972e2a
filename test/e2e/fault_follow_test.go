// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"sync"
	"time"

	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

// follower is an open watch of one service.
type follower struct {
	mu   sync.Mutex
	told []told
}

// told is what a watch said, and when it came.
type told struct {
	at     time.Time
	health sandbox.Health
}

// follow opens a watch of one service, until the test ends.
func (s *site) follow(name string) *follower {
	s.t.Helper()
	c, err := s.dial()
	if err != nil {
		s.t.Fatal(err)
	}
	w := c.WatchServices(context.WithoutCancel(s.ctx), &sandboxv1.WatchServicesRequest{Sandbox: box, Services: []string{name}})
	f := &follower{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			u, err := w.Next()
			if err != nil {
				return
			}
			f.mu.Lock()
			for _, service := range u.Changed {
				f.told = append(f.told, told{time.Now(), service.Health()})
			}
			f.mu.Unlock()
		}
	}()
	s.t.Cleanup(func() {
		w.Close()
		<-done
		c.Close()
	})
	return f
}

// turned returns how often, between two instants, the watch said that a service
// had got a state, when first, and what else it said then.
func (f *follower) turned(want sandbox.HealthState, from, to time.Time) (first told, times int, others []told) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := sandbox.HealthState(-1)
	for _, e := range f.told {
		in := !e.at.Before(from) && !e.at.After(to)
		switch {
		case in && e.health.State != want:
			others = append(others, e)
		case in && before != want:
			if times == 0 {
				first = e
			}
			times++
		}
		before = e.health.State
	}
	return first, times, others
}
