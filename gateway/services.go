// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sandbox-agent/sandbox-agent/gateway/api"
	"github.com/sandbox-agent/sandbox-agent/gateway/forward"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/gateway/route"
	"github.com/sandbox-agent/sandbox-agent/gateway/session"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
	"github.com/sandbox-agent/sandbox-agent/mux"
)

// recordLife is how long a stored record serves for requests: a change by this
// gateway counts at once, one by another gateway after this time at the latest.
const recordLife = time.Second

// maxRecords bounds the records that are kept.
const maxRecords = 10_000

// services shows whoever wants to reach one what is stored of it, and how its
// sandbox is now. A page asks for a service a hundred times in a second, so
// what is stored is kept for a moment.
type services struct {
	store   *store.Store
	cache   *health.Cache
	started time.Time

	mu      sync.Mutex
	records map[route.Name]record
	changes uint64 // so far
}

// record is a service and its sandbox as they were stored.
type record struct {
	service store.Service
	sandbox store.Sandbox
	read    time.Time
}

var _ route.Directory = (*services)(nil)

func newServices(s *store.Store, cache *health.Cache, started time.Time) *services {
	return &services{store: s, cache: cache, started: started, records: make(map[route.Name]record)}
}

// Endpoint implements route.Directory.
func (s *services) Endpoint(ctx context.Context, name route.Name) (route.Endpoint, error) {
	now := time.Now()
	r, err := s.record(ctx, name, now)
	if err != nil {
		return route.Endpoint{}, err
	}
	phase := health.PhaseOf(api.LifecycleOf(r.sandbox), s.cache.Slot(r.sandbox.ID), s.started, now)
	return route.Endpoint{
		SandboxID: r.sandbox.ID, Service: r.service.Name, Port: r.service.Port,
		Phase: phaseWords[phase], Open: phase == health.Ready || phase == health.PhaseUnknown,
	}, nil
}

// record returns what is stored of a service, or was a moment ago.
func (s *services) record(ctx context.Context, name route.Name, now time.Time) (record, error) {
	s.mu.Lock()
	r, ok := s.records[name]
	changes := s.changes
	s.mu.Unlock()
	if ok && now.Sub(r.read) < recordLife {
		return r, nil
	}
	r, err := s.read(ctx, name)
	if err != nil {
		return record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changes != changes {
		return r, nil // which may be older than the change
	}
	if len(s.records) >= maxRecords {
		clear(s.records)
	}
	r.read = now
	s.records[name] = r
	return r, nil
}

// changed drops what is kept: something was stored.
func (s *services) changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	clear(s.records)
}

func (s *services) read(ctx context.Context, name route.Name) (r record, err error) {
	r.service, err = s.store.Service(ctx, name.Workspace, name.Sandbox, name.Service)
	switch {
	case err == nil:
		r.sandbox, err = s.store.SandboxByID(ctx, r.service.SandboxID)
	case errors.Is(err, store.ErrNotFound):
		if _, err = s.store.Sandbox(ctx, name.Workspace, name.Sandbox); err == nil {
			return r, route.ErrNoService
		}
	}
	if errors.Is(err, store.ErrNotFound) {
		err = route.ErrNoSandbox
	}
	return r, err
}

var phaseWords = map[health.Phase]string{
	health.Provisioning: "not booted yet",
	health.Ready:        "ready",
	health.Error:        "in error: its main process has ended",
	health.Deleting:     "being deleted",
	health.PhaseUnknown: "unknown",
	health.Stopping:     "stopping",
	health.Stopped:      "stopped",
	health.Starting:     "starting",
}

// relays opens connections to services over the sessions of their sandboxes.
type relays struct{ *session.Server }

var _ route.Relays = relays{}

// OpenRelay implements route.Relays.
func (r relays) OpenRelay(ctx context.Context, sandboxID, service string) (mux.Duplex, error) {
	relay, err := r.Server.OpenRelay(ctx, sandboxID, service)
	if err != nil {
		return nil, err
	}
	return relay, nil
}

// tunnels are relays for those who forward connections.
type tunnels struct{ *session.Server }

var _ forward.Relays = tunnels{}

// OpenRelay implements forward.Relays.
func (t tunnels) OpenRelay(ctx context.Context, sandboxID, service string) (forward.Relay, error) {
	relay, err := t.Server.OpenRelay(ctx, sandboxID, service)
	if err != nil {
		return nil, err
	}
	return relay, nil
}
