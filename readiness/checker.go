// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandbox-agent/sandbox-agent/probe"
)

// CheckTimeout bounds one check.
const CheckTimeout = 2 * time.Second

// Check asks one thing that the daemon depends on.
type Check struct {
	Name string
	// Func returns nil if the dependency serves. It must respect its context.
	Func func(context.Context) error
}

// Result is what became of a check.
type Result struct {
	Name string
	Err  error     // nil: it passed
	At   time.Time // when it ended; zero: never yet
}

// Checker keeps the verdict.
type Checker struct {
	checks   []Check
	turns    []chan struct{} // by check, of size 1: held while it runs
	logger   *slog.Logger
	draining atomic.Bool
	now      chan struct{} // size 1: check beside the rounds

	mu      sync.Mutex
	verdict probe.Hysteresis
	at      time.Time // of the latest round
	results []Result
}

// New returns a Checker that is not ready until Run has passed once.
func New(logger *slog.Logger, checks ...Check) *Checker {
	c := &Checker{
		checks: checks, turns: make([]chan struct{}, len(checks)), logger: logger,
		now: make(chan struct{}, 1), results: make([]Result, len(checks)),
	}
	for i, check := range checks {
		c.turns[i] = make(chan struct{}, 1)
		c.results[i].Name = check.Name
	}
	return c
}

// Run checks every 5 s, at once first, until ctx ends.
func (c *Checker) Run(ctx context.Context) error {
	ticker := time.NewTicker(probe.Interval)
	defer ticker.Stop()
	c.round(ctx, false)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			c.round(ctx, false)
		case <-c.now:
			c.round(ctx, true)
		}
	}
}

// CheckNow makes Run check at once, beside its rounds: something has come up.
// Such a check can only make the daemon ready.
func (c *Checker) CheckNow() {
	select {
	case c.now <- struct{}{}:
	default:
	}
}

// round runs every check side by side and takes the outcome over. An extra
// round that fails changes nothing.
func (c *Checker) round(ctx context.Context, extra bool) {
	results := make([]Result, len(c.checks))
	var wg sync.WaitGroup
	for i, check := range c.checks {
		wg.Go(func() {
			results[i] = Result{Name: check.Name, Err: run(ctx, check, c.turns[i]), At: time.Now()}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return // the daemon stops; that is no verdict
	}
	outcome := probe.Pass
	for _, r := range results {
		if r.Err != nil {
			outcome = probe.Fail
		}
	}
	if extra && outcome != probe.Pass {
		return
	}
	c.mu.Lock()
	changed := c.verdict.Step(outcome, extra)
	c.at, c.results = time.Now(), results
	ready := c.verdict.State() == probe.Healthy
	c.mu.Unlock()
	if !changed {
		return
	}
	if ready {
		c.logger.Info("ready")
		return
	}
	for _, r := range results {
		if r.Err != nil {
			c.logger.Warn("not ready", "check", r.Name, "error", r.Err)
		}
	}
}

// run bounds one check, also one that ignores its context or panics. It waits
// for its turn: checks that hang do not add up.
func run(ctx context.Context, check Check, turn chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, CheckTimeout)
	defer cancel()
	done := make(chan error, 1)
	select {
	case turn <- struct{}{}:
		go func() {
			defer func() { <-turn }()
			defer func() {
				if p := recover(); p != nil {
					done <- fmt.Errorf("the check panicked: %v", p)
				}
			}()
			done <- check.Func(ctx)
		}()
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("not answered within %v", CheckTimeout)
	}
}

// Ready reports whether the daemon can do its work now.
func (c *Checker) Ready() bool {
	if c.draining.Load() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.verdict.State() == probe.Healthy && time.Since(c.at) < probe.StaleAfter
}

// Alive reports whether the checker's loop makes progress. Every check is
// bounded, so that this depends on nothing outside the process.
func (c *Checker) Alive(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at.IsZero() || now.Sub(c.at) < probe.StaleAfter
}

// Drain makes the daemon not ready for good.
func (c *Checker) Drain() { c.draining.Store(true) }

// Draining reports whether Drain was called.
func (c *Checker) Draining() bool { return c.draining.Load() }

// Results returns the latest result of each check.
func (c *Checker) Results() []Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Result(nil), c.results...)
}
