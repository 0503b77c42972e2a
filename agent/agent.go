// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandbox-agent/sandbox-agent/agent/command"
	"github.com/sandbox-agent/sandbox-agent/internal/buildinfo"
	"github.com/sandbox-agent/sandbox-agent/internal/obs"
	"github.com/sandbox-agent/sandbox-agent/probe"
	"github.com/sandbox-agent/sandbox-agent/readiness"
	"github.com/sandbox-agent/sandbox-agent/report"
)

// lastReport bounds how long a leaving agent waits for the acknowledgement of
// its last report.
const lastReport = 2 * time.Second

// Agent is an agent whose ops listener is bound.
type Agent struct {
	cfg       Config
	instance  string
	ops       net.Listener
	registry  *prometheus.Registry
	tracker   *report.Tracker
	scheduler *probe.Scheduler
	link      *link
	checker   *readiness.Checker
	metrics   *collector
	alone     alone
	counts    *counts
	vigil     vigil
}

// New returns an Agent of a new instance.
func New(cfg Config) (*Agent, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	tls, err := cfg.tls()
	if err != nil {
		return nil, err
	}
	a := &Agent{cfg: cfg, instance: uuid.NewString(), registry: obs.NewRegistry("sandbox_agent"), tracker: report.NewTracker()}
	if a.ops, err = net.Listen("tcp", cfg.OpsListen); err != nil {
		return nil, fmt.Errorf("ops-listen: %w", err)
	}
	n := &counts{}
	a.counts = n
	tokens := newTokens(cfg)
	a.link = &link{
		tokens: tokens, tracker: a.tracker, logger: cfg.Logger, counts: n,
	}
	dialer := cfg.dialer(tokens, tls, a.instance)
	a.link.open = dialer.Dial
	a.metrics = newCollector(a.tracker, a.link, n)
	a.registry.MustRegister(a.metrics)
	a.scheduler = probe.NewScheduler(probe.SchedulerConfig{
		Attempt:   probe.NewHTTP("sandbox-agent/" + buildinfo.Version).Attempt,
		Sink:      a.tracker,
		Phase:     rand.N(probe.Interval),
		OnAttempt: a.metrics.attempted,
		OnLate:    a.metrics.rounded,
		Slept:     a.slept,
	})
	a.link.scheduler = a.scheduler
	a.link.relays = newRelays(a.ops.Addr(), a.tracker, cfg.Logger)
	var checks []readiness.Check
	if cfg.Gateway != "" {
		checks = append(checks, readiness.Check{Name: "gateway", Func: a.link.check})
	}
	a.checker = readiness.New(cfg.Logger, checks...)
	a.link.opened = a.checker.CheckNow
	return a, nil
}

// OpsAddr returns where the ops listener is.
func (a *Agent) OpsAddr() net.Addr { return a.ops.Addr() }

// Hooks tell whoever started an agent what it does. Each may be nil.
type Hooks struct {
	Ready    func() // the listener and the probe loop run
	Stopping func()
}

// Run works until ctx ends or the command has ended. It returns the exit code
// of the process: 0 when it was asked to stop, otherwise the command's.
func (a *Agent) Run(ctx context.Context, hooks Hooks) (int, error) {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() { a.scheduler.Run(work) })
	wg.Go(func() { a.checker.Run(work) })
	wg.Go(func() { a.serveOps(work) })
	wg.Go(func() { a.watchClock(work) })
	linked := make(chan struct{})
	wg.Go(func() {
		defer close(linked)
		if a.cfg.Gateway != "" {
			a.link.run(work)
		}
	})
	if a.cfg.Gateway == "" {
		a.scheduler.SetServices(a.alone.revise(a.cfg.Services))
	}
	call(hooks.Ready)
	ended := make(chan result, 1)
	wg.Go(func() { ended <- a.main(ctx) })
	r := result{}
	select {
	case r = <-ended:
	case <-ctx.Done():
	}
	asked := ctx.Err() != nil
	a.checker.Drain()
	call(hooks.Stopping)
	grace := time.Duration(0) // what was relayed ended with the command
	if asked {
		grace = relayGrace
	}
	a.leave(report.Stop{MainExited: !asked, ExitCode: r.code}, grace, linked)
	if asked {
		return 0, nil // the command ends meanwhile
	}
	return r.code, r.err
}

func call(hook func()) {
	if hook != nil {
		hook()
	}
}

// slept implements probe.SchedulerConfig.Slept.
func (a *Agent) slept(now time.Time, late time.Duration) (asleep time.Duration, slept bool) {
	gone := a.vigil.see(reading{mono: now, wall: now.Round(0), boot: sinceBoot()}, late)
	if gone == 0 {
		return 0, false
	}
	a.cfg.Logger.Info("this process was suspended", "for", gone.Round(time.Millisecond))
	a.counts.suspensions.Add(1)
	a.counts.suspended.Add(int64(gone))
	a.link.suspended(gone)
	if late >= lateBound { // that much the clock has seen
		gone -= late
	}
	return gone, true
}

// watchClock makes the probe loop look at the clocks when one of them was set:
// a machine that was suspended runs again. Without it the loop looks when it
// turns next.
func (a *Agent) watchClock(ctx context.Context) {
	if err := watchClock(ctx, a.scheduler.Look); err != nil {
		a.cfg.Logger.Debug("watching the clock failed", "error", err)
	}
}

// leave tells the gateway, if it can, that the agent leaves, and lets open
// relays have their grace.
func (a *Agent) leave(stop report.Stop, grace time.Duration, linked <-chan struct{}) {
	grace = a.link.relays.stop(grace)
	a.tracker.Stop(stop)
	if live, _, _ := a.link.status(); !live {
		return
	}
	patience := time.NewTimer(lastReport + grace)
	defer patience.Stop()
	select {
	case <-linked: // the last report was acknowledged, and the relays have ended
	case <-patience.C:
	}
}

// result is how the main process has ended.
type result struct {
	code int
	err  error
}

// main runs the command, if there is one, until it or ctx ends.
func (a *Agent) main(ctx context.Context) result {
	if a.cfg.Command == nil {
		<-ctx.Done()
		return result{}
	}
	code, err := command.Run(ctx, *a.cfg.Command)
	if err != nil {
		return result{max(code, 1), err}
	}
	return result{code, nil}
}

func (a *Agent) serveOps(ctx context.Context) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", a.serveStatus)
	mux.Handle("/", a.checker.Handler(true))
	if err := obs.ServeHTTP(ctx, a.ops, obs.OpsHandler(a.registry, mux), a.cfg.Logger); err != nil {
		a.cfg.Logger.Warn("the ops listener failed", "error", err)
	}
}
