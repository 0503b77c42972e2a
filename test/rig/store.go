// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"fmt"
	"slices"

	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/gateway/session"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

// Store is the stored record of the sandbox and its services.
type Store struct {
	Generation uint64
	Lifecycle  health.Lifecycle
	Services   []session.Service
	revisions  uint64
	ids        int
}

func newStore() *Store {
	return &Store{Generation: 1, Lifecycle: health.Lifecycle{Asked: health.Ready}}
}

// Service returns the stored service of a name.
func (s *Store) Service(name string) (session.Service, bool) {
	i := s.index(name)
	if i < 0 {
		return session.Service{}, false
	}
	return s.Services[i], true
}

func (s *Store) index(name string) int {
	return slices.IndexFunc(s.Services, func(svc session.Service) bool { return svc.Name == name })
}

func (s *Store) lifecycle() health.Lifecycle {
	l := s.Lifecycle
	l.Generation = s.Generation
	return l
}

// admitted reports whether a token of a generation is good.
func (s *Store) admitted(generation uint64) bool {
	asked := s.Lifecycle.Asked
	return generation == s.Generation && (asked == health.Ready || asked == health.Starting)
}

// connected takes note of an accepted session.
func (s *Store) connected(generation uint64) bool {
	if !s.admitted(generation) {
		return false
	}
	s.Lifecycle = health.Lifecycle{Asked: health.Ready, Connected: true}
	return true
}

// Expose creates a service or gives it another configuration.
func (w *World) Expose(name string, target probe.Target) {
	s := w.Store
	s.revisions++
	svc := session.Service{Service: probe.Service{Name: name, Revision: s.revisions, Target: target}}
	if i := s.index(name); i >= 0 {
		svc.ID = s.Services[i].ID
		s.Services[i] = svc
	} else {
		s.ids++
		svc.ID = fmt.Sprintf("%s-%d", name, s.ids)
		s.Services = append(s.Services, svc)
	}
	w.log(Event{Kind: Configured, Service: svc.ID, Revision: svc.Revision})
	w.Gateway.refresh()
}

// Delete removes a service, if it exists.
func (w *World) Delete(name string) {
	i := w.Store.index(name)
	if i < 0 {
		return
	}
	w.log(Event{Kind: Configured, Service: w.Store.Services[i].ID})
	w.Store.Services = slices.Delete(w.Store.Services, i, i+1)
	w.Gateway.refresh()
}

// Stop stops the sandbox: first it is Stopping, then its agents and its session
// are gone, then it is Stopped.
func (w *World) Stop() {
	w.ask(health.Stopping)
}

// Stopped ends a stop: whatever ran in the sandbox is dead.
func (w *World) Stopped(agents ...*Agent) {
	if w.Store.Lifecycle.Asked != health.Stopping {
		return
	}
	for _, a := range agents {
		a.Kill()
	}
	w.Gateway.do(w.Gateway.closeHolder)
	w.ask(health.Stopped)
}

// Start begins a new generation of the sandbox, whose agent is still to be
// started, unless the sandbox is up.
func (w *World) Start() {
	s := w.Store
	if s.Lifecycle.Asked != health.Stopped && !s.Lifecycle.Exited {
		return
	}
	w.Gateway.do(w.Gateway.closeHolder)
	w.Gateway.cache.Forget(sandboxID)
	s.Generation++
	w.ask(health.Starting)
	s.Lifecycle = health.Lifecycle{Asked: health.Starting}
}

func (w *World) ask(phase health.Phase) {
	w.Store.Lifecycle.Asked = phase
	w.log(Event{Kind: Asked, Phase: phase, Generation: w.Store.Generation})
}

// exited takes note that the main process of a generation has ended.
func (w *World) exited(generation uint64) {
	if w.Store.admitted(generation) && !w.Store.Lifecycle.Exited {
		w.Store.Lifecycle.Exited = true
		w.log(Event{Kind: Exited})
	}
}
