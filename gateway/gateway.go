// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/api"
	"github.com/sandbox-agent/sandbox-agent/gateway/forward"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/gateway/identity"
	"github.com/sandbox-agent/sandbox-agent/gateway/lifecycle"
	"github.com/sandbox-agent/sandbox-agent/gateway/route"
	"github.com/sandbox-agent/sandbox-agent/gateway/runtime"
	"github.com/sandbox-agent/sandbox-agent/gateway/session"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
	"github.com/sandbox-agent/sandbox-agent/gateway/watch"
	"github.com/sandbox-agent/sandbox-agent/internal/buildinfo"
	"github.com/sandbox-agent/sandbox-agent/internal/obs"
	"github.com/sandbox-agent/sandbox-agent/mux"
	"github.com/sandbox-agent/sandbox-agent/readiness"
)

// Gateway is a gateway whose listeners are bound.
type Gateway struct {
	cfg       Config
	logger    *slog.Logger
	registry  *prometheus.Registry
	identity  *identity.Identity
	store     *store.Store
	drivers   map[string]runtime.Driver
	lifecycle *lifecycle.Manager
	sessions  *session.Server
	watch     *watch.Server
	checker   *readiness.Checker
	cache     *health.Cache
	services  *services
	router    *route.Router
	forward   *forward.Server
	api       *grpc.Server
	agents    [2]*http.Server // of the supervisor listener and of the socket
	listeners listeners
	entrance  *entrance    // of the API
	stored    atomic.Int64 // services in the store, at the last check
	lock      io.Closer    // of the state directory, where the store has none
	// stopTimeout is StopTimeout, but for tests.
	stopTimeout time.Duration
}

// New opens the gateway's state and binds its listeners.
func New(ctx context.Context, cfg Config, logger *slog.Logger) (_ *Gateway, err error) {
	g := &Gateway{
		cfg: cfg, logger: logger, registry: obs.NewRegistry("sandbox_gateway"),
		cache: health.NewCache(), stopTimeout: StopTimeout,
	}
	defer func() {
		if err != nil {
			g.Close()
			cfg.closeInherited()
		}
	}()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	// The directory is this process's before anything in it is made or read.
	if !cfg.DatabaseURL.IsZero() {
		if g.lock, err = lockDirectory(cfg.StateDir); err != nil {
			return nil, fmt.Errorf("state-dir: %w", err)
		}
	}
	if g.store, err = store.Open(ctx, store.Config{
		Dir: cfg.StateDir, URL: cfg.DatabaseURL.Reveal(), Now: time.Now, Logger: logger,
		Observe: storeMetrics(g.registry), Changed: g.changed,
	}); err != nil {
		return nil, err
	}
	if g.identity, err = identity.Open(identity.Config{
		Dir: cfg.StateDir, Names: cfg.TLSNames, TokenLifetime: cfg.TokenLifetime, Now: time.Now,
	}); err != nil {
		return nil, err
	}
	g.checker = readiness.New(logger, readiness.Check{Name: "store", Func: g.storeReady})
	if g.listeners, err = listen(cfg); err != nil {
		return nil, err
	}
	g.cfg.SupervisorSocket = g.listeners.socket.Addr().String()
	g.wire()
	return g, nil
}

// wire makes the parts know each other.
func (g *Gateway) wire() {
	cache := g.cache
	started := time.Now()
	g.watch = watch.New(watch.Config{Records: g.store, Slots: cache, URLs: g.urls(), Started: started, Logger: g.logger})
	cache.OnChange(g.watch.Touch)
	watchMetrics(g.registry, g.watch.Watches, g.watch.Waits)
	rc := runtime.Config{
		Dir: filepath.Join(g.cfg.StateDir, "sandboxes"), StateDir: g.cfg.StateDir,
		Socket: g.cfg.socket(), AgentPath: g.cfg.AgentPath, OnExit: g.exited, Logger: g.logger,
	}
	external, local := runtime.NewExternal(rc), runtime.NewLocal(rc)
	g.drivers = map[string]runtime.Driver{external.Name(): external, local.Name(): local}
	patience := time.Duration(0)
	if !g.cfg.DatabaseURL.IsZero() { // which replicas may share
		patience = lifecycle.OpTimeout
	}
	g.lifecycle = lifecycle.New(lifecycle.Config{
		Patience: patience, Store: g.store, Drivers: g.drivers, Issue: g.identity.Issue,
		Disconnect: func(id string) { g.sessions.Close(id) }, Cache: cache, Logger: g.logger,
	})
	grpcHealth := newGRPCHealth(g.checker, openshellv1.OpenShell_ServiceDesc.ServiceName, sandboxv1.ServiceHealthWatch_ServiceDesc.ServiceName, sandboxv1.ServiceForward_ServiceDesc.ServiceName)
	g.sessions = session.New(session.Config{
		Tokens: g.identity, Directory: directory{g.store, g.lifecycle}, Cache: cache,
		Health: grpcHealth, Metrics: session.NewMetrics(g.registry), Logger: g.logger,
	})
	g.registry.MustRegister(newCollector(cache, g.checker, g.stored.Load))
	requests := obs.Sparing(g.logger) // of all who serve them: they ask the same store
	users := api.New(api.Config{
		Store: g.store, Lifecycle: g.lifecycle, Cache: cache, Refresh: func(id string) { g.sessions.Refresh(id) },
		URLs: g.urls(), Hint: g.hint, DefaultDriver: g.cfg.Driver, Ready: g.checker.Ready,
		Version: buildinfo.Version, Started: started, ObserveAge: ageMetrics(g.registry), Logger: requests,
	})
	g.services = newServices(g.store, cache, started)
	g.router = route.New(route.Config{
		Domain: g.cfg.RoutingDomain, Own: g.page(users), Directory: g.services,
		Relays: relays{g.sessions}, IsAdmin: g.identity.IsAdmin, Logger: requests,
	})
	g.forward = forward.New(forward.Config{Directory: g.services, Relays: tunnels{g.sessions}, Logger: requests})
	handler := http.NewServeMux()
	handler.Handle(mux.Path, g.sessions)
	g.agents[0] = mux.NewServer(handler, g.identity.TLS("http/1.1"), g.logger)
	g.agents[1] = mux.NewServer(handler, nil, g.logger)

	auth := api.NewAuth(g.identity.IsAdmin)
	g.entrance = newEntrance(g.listeners.grpc)
	g.api = grpc.NewServer(
		grpc.Creds(doorkeeper{credentials.NewTLS(g.identity.TLS("h2")), g.entrance}),
		grpc.UnaryInterceptor(auth.Unary), grpc.StreamInterceptor(auth.Stream), grpc.UnknownServiceHandler(api.Missing),
		grpc.ConnectionTimeout(10*time.Second), grpc.MaxHeaderListSize(16<<10),
		// Half of what published clients wait between pings, so that none of
		// theirs, a little early, counts against them.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 15 * time.Second}),
	)
	openshellv1.RegisterOpenShellServer(g.api, users)
	sandboxv1.RegisterServiceHealthWatchServer(g.api, g.watch)
	sandboxv1.RegisterServiceForwardServer(g.api, g.forward)
	grpc_health_v1.RegisterHealthServer(g.api, grpcHealth)
	reflection.Register(g.api)
}

// changed tells those who keep what is stored that something of a sandbox is
// not what it was.
func (g *Gateway) changed(sandboxID string) {
	g.services.changed()
	g.watch.Stored(sandboxID)
}

func (g *Gateway) urls() api.URLs {
	_, port, _ := net.SplitHostPort(g.listeners.http.Addr().String()) // an address of the kernel
	return api.URLs{Scheme: "http", Domain: g.cfg.RoutingDomain, Port: port}
}

// hint tells how to start the agent of an external sandbox.
func (g *Gateway) hint(s store.Sandbox) string {
	if s.Driver != "external" {
		return ""
	}
	return fmt.Sprintf("boot the sandbox with: sandbox-agent run --gateway https://%s --token-file %s --ca-file %s (hand both files over; on this host --gateway unix:%s needs no CA)",
		g.listeners.supervisor.Addr(), g.lifecycle.TokenFile(s), filepath.Join(g.cfg.StateDir, identity.CAFile), g.cfg.socket())
}

// exited stores that a sandbox's processes have ended by themselves.
func (g *Gateway) exited(e runtime.Exit) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := g.lifecycle.Exited(ctx, e.ID, e.Generation, e.Code); err != nil {
		g.logger.Warn("storing the exit of a sandbox failed", "sandbox_id", e.ID, "error", err)
	}
}

// Close releases what New has opened. Run does it by itself.
func (g *Gateway) Close() {
	g.listeners.close()
	for _, d := range g.drivers {
		d.Close()
	}
	if g.store != nil {
		g.store.Close()
	}
	if g.lock != nil {
		g.lock.Close()
	}
}
