// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/sandbox-agent/sandbox-agent/gateway/api"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/gateway/route"
	"github.com/sandbox-agent/sandbox-agent/gateway/session"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
	"github.com/sandbox-agent/sandbox-agent/mux"
)

// services shows whoever wants to reach one what is stored of it, and how its
// sandbox is now.
type services struct {
	store   *store.Store
	cache   *health.Cache
	started time.Time
}

var _ route.Directory = services{}

// Endpoint implements route.Directory.
func (s services) Endpoint(ctx context.Context, name route.Name) (route.Endpoint, error) {
	svc, err := s.store.Service(ctx, name.Workspace, name.Sandbox, name.Service)
	if errors.Is(err, store.ErrNotFound) {
		if _, err := s.store.Sandbox(ctx, name.Workspace, name.Sandbox); errors.Is(err, store.ErrNotFound) {
			return route.Endpoint{}, route.ErrNoSandbox
		} else if err != nil {
			return route.Endpoint{}, err
		}
		return route.Endpoint{}, route.ErrNoService
	}
	if err != nil {
		return route.Endpoint{}, err
	}
	sb, err := s.store.SandboxByID(ctx, svc.SandboxID)
	if errors.Is(err, store.ErrNotFound) {
		return route.Endpoint{}, route.ErrNoSandbox
	}
	if err != nil {
		return route.Endpoint{}, err
	}
	phase := health.PhaseOf(api.LifecycleOf(sb), s.cache.Slot(sb.ID), s.started, time.Now())
	return route.Endpoint{
		SandboxID: sb.ID, Service: svc.Name, Port: svc.Port,
		Phase: phaseWords[phase], Open: phase == health.Ready || phase == health.PhaseUnknown,
	}, nil
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
