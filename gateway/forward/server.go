// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/api"
	"github.com/sandbox-agent/sandbox-agent/gateway/route"
	"github.com/sandbox-agent/sandbox-agent/mux"
)

// Relay is a connection to a service. Await waits for the agent's answer, Reset
// ends the connection such that no end takes it for complete.
type Relay interface {
	mux.Duplex
	Await() error
	Reset() error
}

// Relays opens connections to services; see route.Relays.
type Relays interface {
	OpenRelay(ctx context.Context, sandboxID, service string) (Relay, error)
}

// Config is what a Server needs.
type Config struct {
	Directory route.Directory
	Relays    Relays
	Logger    *slog.Logger
}

// Server implements sandbox.v1.ServiceForward.
type Server struct {
	sandboxv1.UnimplementedServiceForwardServer
	cfg      Config
	patience mux.Patience

	closed chan struct{}
	once   sync.Once
	mu     sync.Mutex // of calls against Close
	calls  sync.WaitGroup
}

// New returns a Server.
func New(cfg Config) *Server {
	return &Server{cfg: cfg, patience: mux.RelayPatience(), closed: make(chan struct{})}
}

var errStopping = status.Error(codes.Unavailable, "the gateway is stopping")

// Close ends all calls with Unavailable, and returns when they have gone.
func (s *Server) Close() {
	s.mu.Lock()
	s.once.Do(func() { close(s.closed) })
	s.mu.Unlock()
	s.calls.Wait()
}

// enter counts a call, unless the Server is closed.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closed:
		return false
	default:
		s.calls.Add(1)
		return true
	}
}

// Forward implements sandbox.v1.
func (s *Server) Forward(stream forwardStream) error {
	if !s.enter() {
		return errStopping
	}
	defer s.calls.Done()
	relay, name, err := s.open(stream)
	if err != nil {
		return err
	}
	c := newCall(stream, relay, s.patience)
	err = c.run(s.closed)
	if err != nil {
		_ = relay.Reset()
	}
	_ = relay.Close()
	if errors.Is(err, errClosed) {
		return errStopping
	}
	return c.status(name, err)
}

// open reads the target and opens a connection to it.
func (s *Server) open(stream forwardStream) (Relay, route.Name, error) {
	target, err := s.target(stream)
	if err != nil {
		return nil, route.Name{}, err
	}
	name, err := nameOf(target)
	if err != nil {
		return nil, name, err
	}
	e, err := s.cfg.Directory.Endpoint(stream.Context(), name)
	switch {
	case errors.Is(err, route.ErrNoSandbox), errors.Is(err, route.ErrNoService):
		return nil, name, status.Error(codes.NotFound, route.Explain(name, err).Text)
	case err != nil:
		s.cfg.Logger.Warn("a service could not be looked up", "error", err)
		return nil, name, status.Error(codes.Unavailable, "the store does not answer")
	case !e.Open:
		return nil, name, status.Error(codes.FailedPrecondition, route.NotReady(name, e).Text)
	}
	relay, err := s.cfg.Relays.OpenRelay(stream.Context(), e.SandboxID, e.Service)
	if err != nil {
		return nil, name, explain(name, err)
	}
	return relay, name, nil
}

// targetTimeout is how long a caller may take for the first message.
const targetTimeout = 10 * time.Second

// target waits for the first message.
func (s *Server) target(stream forwardStream) (*sandboxv1.ForwardTarget, error) {
	type first struct {
		m   *sandboxv1.ForwardRequest
		err error
	}
	got := make(chan first, 1)
	go func() { // ends with the call
		m, err := stream.Recv()
		got <- first{m, err}
	}()
	late := time.NewTimer(targetTimeout)
	defer late.Stop()
	select {
	case f := <-got:
		return f.m.GetTarget(), f.err
	case <-late.C:
		return nil, status.Error(codes.DeadlineExceeded, "no target within 10 seconds")
	case <-s.closed:
		return nil, errStopping
	}
}

// nameOf checks how the first message names a service.
func nameOf(t *sandboxv1.ForwardTarget) (route.Name, error) {
	if t == nil {
		return route.Name{}, api.Invalid("target", "is missing; the first message names the service")
	}
	workspace, err := api.Workspace(t.GetWorkspaceScope())
	if err == nil {
		err = api.ValidName("target.sandbox", t.GetSandbox())
	}
	if err == nil && t.GetName() != "" {
		err = api.ValidName("target.name", t.GetName())
	}
	return route.Name{Workspace: workspace, Sandbox: t.GetSandbox(), Service: t.GetName()}, err
}

// explain is the status of a connection that could not be opened.
func explain(name route.Name, err error) error {
	p := route.Explain(name, err)
	code := codes.Unavailable
	if p.Status == http.StatusServiceUnavailable {
		code = codes.ResourceExhausted
	}
	return status.Error(code, p.Text)
}
