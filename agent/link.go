// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/sandbox-agent/sandbox-agent/mux"
	"github.com/sandbox-agent/sandbox-agent/probe"
	"github.com/sandbox-agent/sandbox-agent/report"
)

// link keeps a session with the gateway: it dials, and dials again, for ever.
type link struct {
	open      func(context.Context, mux.Config) (*mux.Session, error) // mux.Dialer.Dial
	tokens    *tokens
	tracker   *report.Tracker
	scheduler *probe.Scheduler
	relays    *relays
	logger    *slog.Logger
	counts    *counts
	opened    func() // told of each session; may be nil

	// Of run alone: what was logged last of why there is no session.
	said bool
	why  failure

	mu        sync.Mutex
	state     linkState
	interrupt context.CancelCauseFunc // ends what the link does at present
}

// linkState is what status and metrics show of the link.
type linkState struct {
	health  grpc_health_v1.HealthClient // nil without a live session
	since   time.Time                   // of the present state
	lastErr error                       // why there is no session
}

var (
	errNoSession = errors.New("no session with the gateway")
	errSuspended = errors.New("the sandbox was suspended for too long for the session to be trusted")
)

// status returns whether a session is live, since when it is or is not, and
// the last error.
func (l *link) status() (live bool, since time.Time, lastErr error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.health != nil, l.state.since, l.state.lastErr
}

// check asks the gateway over the session whether it serves.
func (l *link) check(ctx context.Context) error {
	l.mu.Lock()
	health, lastErr := l.state.health, l.state.lastErr
	l.mu.Unlock()
	if health == nil {
		return errors.Join(errNoSession, lastErr)
	}
	r, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		return err
	}
	if r.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		return errors.New("the gateway is not ready")
	}
	return nil
}

// begin takes note of when there was no session for the first time.
func (l *link) begin(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.since = now
}

func (l *link) up(health grpc_health_v1.HealthClient) {
	l.mu.Lock()
	l.state = linkState{health: health, since: time.Now()}
	l.mu.Unlock()
	if l.opened != nil {
		l.opened()
	}
}

func (l *link) down(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state.health != nil {
		l.state = linkState{since: time.Now()}
	}
	l.state.lastErr = err
}

// suspended is told that this process did not run for a while. A session, a
// dial or a wait that was not shorter than that is given up, for a new session
// at once.
func (l *link) suspended(gone time.Duration) {
	if !suspect(gone) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.interrupt != nil {
		l.interrupt(errSuspended)
	}
}

// turn returns the context of one dial, session and wait, which suspended can
// end. The context of the turn before is over.
func (l *link) turn(ctx context.Context) context.Context {
	turn, interrupt := context.WithCancelCause(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.interrupt != nil {
		l.interrupt(nil)
	}
	l.interrupt = interrupt
	return turn
}

// run keeps the link until ctx ends or the agent's last report was
// acknowledged.
func (l *link) run(ctx context.Context) {
	l.begin(time.Now())
	var redial mux.Redial
	var next *mux.Session
	turn := l.turn(ctx)
	defer l.relays.wait()
	for ctx.Err() == nil {
		session, err := next, error(nil)
		next = nil
		if session == nil {
			session, err = l.dial(turn, turn)
		}
		if err == nil {
			began := time.Now()
			next, err = l.serve(turn, session)
			redial.Connected(time.Since(began))
			if next != nil {
				continue
			}
			if errors.Is(err, errStopped) {
				return
			}
		}
		turn = l.failed(ctx, turn, &redial, err, session != nil)
	}
}

// failed waits after a dial that failed, or a session that has ended, and
// returns the context of the next turn. After a suspension there is little to
// wait for, but a fleet that was thawed together must not come together.
func (l *link) failed(ctx, turn context.Context, redial *mux.Redial, err error, session bool) context.Context {
	suspended := func() bool { return errors.Is(context.Cause(turn), errSuspended) }
	if suspended() {
		err = errSuspended
	}
	l.down(err)
	for {
		if errors.Is(err, errSuspended) {
			*redial = mux.Redial{}
			turn = l.turn(ctx)
		}
		delay := redial.Failed(err, rand.Float64())
		l.logDial(ctx, err, session, delay)
		sleep(turn, delay)
		if ctx.Err() != nil || !suspended() {
			return turn
		}
		err = errSuspended
	}
}

// dial opens one session. Its relays run under turn.
func (l *link) dial(ctx, turn context.Context) (*mux.Session, error) {
	l.counts.dials.Add(1)
	return l.open(ctx, mux.Config{Handle: func(s *mux.Stream) { l.relays.handle(turn, s) }})
}

// logDial says and counts why there is no session: loudly where somebody must
// do something about it, and once for as long as it stays the same.
func (l *link) logDial(ctx context.Context, err error, session bool, delay time.Duration) {
	if ctx.Err() != nil {
		return
	}
	why := classify(err, session)
	l.counts.failures[why].Add(1)
	level := slog.LevelInfo
	switch {
	case !session && l.said && why == l.why:
		level = slog.LevelDebug
	case why.loud():
		level = slog.LevelWarn
	}
	l.said, l.why = true, why
	l.logger.Log(ctx, level, "no session with the gateway", "reason", why.String(), "error", err, "retry_in", delay.Round(time.Millisecond))
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
