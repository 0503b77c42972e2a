// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/sandbox-agent/sandbox-agent/gateway/store"
	"github.com/sandbox-agent/sandbox-agent/internal/obs"
	"github.com/sandbox-agent/sandbox-agent/mux"
)

// StopTimeout bounds the graceful stop that follows the drain grace.
const StopTimeout = 30 * time.Second

// Hooks tell whoever started a gateway what it does. Each may be nil.
type Hooks struct {
	// Ready is called once everything is served.
	Ready func()
	// Stopping is called when the drain has begun.
	Stopping func()
	// Cut ends the drain grace early.
	Cut <-chan struct{}
}

func call(hook func()) {
	if hook != nil {
		hook()
	}
}

// Run serves until ctx ends, then drains: not ready at once, serving on for
// the drain grace, a graceful stop within StopTimeout, a hard stop. It returns
// nil after a drain, and an error if a listener failed. The Gateway is closed
// when it returns.
func (g *Gateway) Run(ctx context.Context, hooks Hooks) error {
	defer g.Close()
	// Whatever serves outlives ctx: it stops in the order below.
	checks, stopChecks := context.WithCancel(context.WithoutCancel(ctx))
	users, stopUsers := context.WithCancel(context.WithoutCancel(ctx))
	sessions, stopSessions := context.WithCancel(context.WithoutCancel(ctx))
	defer stopChecks()
	defer stopUsers()
	defer stopSessions()

	failed := make(chan error, 1)
	var user, infra, recovery sync.WaitGroup
	serve := func(wg *sync.WaitGroup, name string, f func() error) {
		wg.Go(func() {
			err := f()
			if err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, grpc.ErrServerStopped) && !errors.Is(err, net.ErrClosed) {
				select {
				case failed <- fmt.Errorf("%s: %w", name, err):
				default:
				}
			}
		})
	}
	serve(&infra, "readiness", func() error { return g.checker.Run(checks) })
	serve(&infra, "ops", func() error {
		return obs.ServeHTTP(checks, g.listeners.ops, obs.OpsHandler(g.registry, g.checker.Handler(true)), g.logger)
	})
	serve(&infra, "sessions", func() error { return g.sessions.Run(sessions) })
	serve(&infra, "watch", func() error { return g.watch.Run(checks) })
	recovery.Go(func() { g.recover(sessions) })
	serve(&user, "http", func() error {
		return obs.ServeHTTP(users, g.listeners.http, g.router, g.logger)
	})
	serve(&user, "grpc", func() error { return g.api.Serve(g.entrance) })
	serve(&user, "supervisor", func() error {
		return g.agents[0].ServeTLS(mux.LimitHandshakes(g.listeners.supervisor, 0), "", "")
	})
	serve(&user, "supervisor socket", func() error { return g.agents[1].Serve(g.listeners.socket) })

	err := writeClientFile(g.cfg.StateDir, g.listeners)
	if err == nil {
		call(hooks.Ready)
		select {
		case <-ctx.Done():
			g.drain(hooks)
		case err = <-failed:
		}
	}
	hard, release := context.WithTimeout(context.WithoutCancel(ctx), g.stopTimeout)
	defer release()
	stopUsers()
	g.stop(hard)
	user.Wait()
	stopSessions()
	g.router.Close()
	recovery.Wait()
	g.lifecycle.Wait(hard)
	stopChecks()
	infra.Wait()
	return err
}

// recover finishes what an earlier gateway process has begun.
func (g *Gateway) recover(ctx context.Context) {
	if err := g.lifecycle.Recover(ctx); err != nil && ctx.Err() == nil {
		g.logger.Error("taking sandboxes over failed", "error", err)
	}
}

// drain makes the gateway not ready and serves on for the grace, so that load
// balancers and agents can go elsewhere.
func (g *Gateway) drain(hooks Hooks) {
	g.checker.Drain()
	g.sessions.Drain(g.cfg.DrainGrace)
	call(hooks.Stopping)
	g.logger.Info("draining", "grace", g.cfg.DrainGrace)
	grace := time.NewTimer(g.cfg.DrainGrace)
	defer grace.Stop()
	select {
	case <-grace.C:
	case <-hooks.Cut:
	}
}

// stop ends watches and forwarded connections, then the servers of users and
// agents: gracefully, and hard once ctx ends.
func (g *Gateway) stop(ctx context.Context) {
	defer context.AfterFunc(ctx, g.api.Stop)()
	g.watch.Close() // a graceful stop would wait for them
	g.forward.Close()
	for _, s := range g.agents {
		s.Close() // sessions were hijacked and go on; only handshakes are cut
	}
	g.entrance.shut(ctx)
	g.api.GracefulStop()
}

// storeReady is the store's part of readiness. A store that is busy serves
// reads and is not down. It counts for the metrics on the way, so that a scrape
// asks the store nothing: first, since the check of a busy store takes all the
// time there is. A count that fails is no verdict; the check is.
func (g *Gateway) storeReady(ctx context.Context) error {
	if n, err := g.store.CountServices(ctx); err == nil {
		g.stored.Store(n)
	}
	if err := g.store.Check(ctx); !errors.Is(err, store.ErrBusy) {
		return err
	}
	return nil
}
