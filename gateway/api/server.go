// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"log/slog"
	"time"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/gateway/lifecycle"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

// Config is what a Server works with.
type Config struct {
	Store     *store.Store
	Lifecycle *lifecycle.Manager
	Cache     *health.Cache
	// Refresh makes the session of a sandbox send its desired state again.
	Refresh func(sandboxID string)
	// URLs renders the URL of a service.
	URLs URLs
	// Hint tells whoever boots an external sandbox how to start its agent.
	Hint func(store.Sandbox) string
	// DefaultDriver is used where a request names none.
	DefaultDriver string
	// Ready is the cached readiness of the gateway.
	Ready   func() bool
	Version string
	// ObserveAge is told the age of each observation that is answered; nil:
	// nobody is.
	ObserveAge func(time.Duration)
	// Started is when the gateway began to accept sessions.
	Started time.Time
	Logger  *slog.Logger
}

// Server implements openshell.v1.
type Server struct {
	openshellv1.UnimplementedOpenShellServer
	cfg Config
}

// New returns a Server.
func New(cfg Config) *Server {
	if cfg.ObserveAge == nil {
		cfg.ObserveAge = func(time.Duration) {}
	}
	return &Server{cfg: cfg}
}

// phase tells the phase of a sandbox, given its slot.
func (s *Server) phase(sb store.Sandbox, slot health.Slot, now time.Time) health.Phase {
	return health.PhaseOf(lifecycleOf(sb), slot, s.cfg.Started, now)
}

func lifecycleOf(sb store.Sandbox) health.Lifecycle {
	l := health.Lifecycle{Generation: sb.Generation, Asked: health.Ready, Connected: sb.Connected, Exited: sb.ExitCode != nil}
	switch sb.Lifecycle {
	case store.Starting:
		l.Asked = health.Starting
	case store.Stopping:
		l.Asked = health.Stopping
	case store.Stopped:
		l.Asked = health.Stopped
	case store.Deleting:
		l.Asked = health.Deleting
	}
	return l
}

// answer evaluates the health of a service of a sandbox now.
func (s *Server) answer(sb store.Sandbox, svc store.Service, now time.Time) health.Answer {
	slot := s.cfg.Cache.Slot(sb.ID)
	return health.Evaluate(health.Endpoint{ID: svc.ID, Revision: svc.Revision, Generation: sb.Generation}, s.phase(sb, slot, now), slot, now)
}
