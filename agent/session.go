// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"

	supervisorv1 "github.com/sandbox-agent/sandbox-agent/api/supervisor/v1"
	"github.com/sandbox-agent/sandbox-agent/mux"
	"github.com/sandbox-agent/sandbox-agent/report"
)

var (
	// errStopped ends a session whose last report was acknowledged.
	errStopped = errors.New("the agent has stopped")
	errMoved   = errors.New("moved to another session")
)

// openTimeout bounds the way from a session to its first message.
const openTimeout = 10 * time.Second

// serve runs one session to its end. If the gateway asked to move, it returns
// the session to go on with.
func (l *link) serve(ctx context.Context, session *mux.Session) (next *mux.Session, err error) {
	defer session.Close()
	turn := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	conn, err := dialControl(ctx, session)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	slow := time.AfterFunc(openTimeout, func() { session.Close() })
	defer slow.Stop()
	c := &control{link: l, turn: turn, acks: make(chan uint64, 1), moved: make(chan *mux.Session, 1), end: cancel}
	if c.stream, err = supervisorv1.NewSupervisorClient(conn).Connect(ctx); err != nil {
		return nil, err
	}
	m, err := c.stream.Recv()
	if err != nil {
		return nil, fmt.Errorf("waiting for the desired state: %w", err)
	}
	opened := time.Now()
	slow.Stop()
	if m.GetDesired() == nil {
		return nil, errors.New("the session does not begin with the desired state")
	}
	if err := c.desired(m.GetDesired()); err != nil {
		return nil, err
	}
	l.up(grpc_health_v1.NewHealthClient(conn))
	l.logger.Info("session with the gateway opened")
	// What was observed before the session proves nothing in it.
	l.scheduler.ProbeNow()
	received := make(chan struct{})
	go func() {
		defer close(received)
		cancel(c.receive(ctx))
	}()
	if err = report.Publish(ctx, c, l.tracker, opened, l.scheduler.ProbeNow); err == nil {
		l.relays.settle(ctx)
		err = errStopped
	}
	cancel(err)
	session.Close()
	<-received
	c.moving.Wait()
	select {
	case next = <-c.moved:
		if !errors.Is(err, errStopped) {
			return next, nil
		}
		next.Close()
	default:
	}
	return nil, err
}
