// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/api"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

// goal is what a wait is for.
type goal struct {
	workspace, sandbox, service string
	states                      []openshellv1.ServiceHealthState // asked for, each once
	wanted                      map[probe.State]bool
	limit                       time.Duration // negative: none
}

// glimpse is a service and its answer as a wait has seen them last.
type glimpse struct {
	service  store.Service
	answer   health.Answer
	phase    health.Phase
	exitCode *int32
	at       time.Time
}

// states are those that can be waited for.
var states = map[openshellv1.ServiceHealthState]probe.State{
	openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_UNKNOWN:   probe.Unknown,
	openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_HEALTHY:   probe.Healthy,
	openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_UNHEALTHY: probe.Unhealthy,
}

// goalOf checks a request.
func goalOf(r *sandboxv1.WaitServiceRequest) (g goal, err error) {
	if g.workspace, err = api.Workspace(r.GetWorkspaceScope()); err != nil {
		return g, err
	}
	g.sandbox, g.service = r.GetSandbox(), r.GetName()
	if err = api.ValidName("sandbox", g.sandbox); err != nil {
		return g, err
	}
	if g.service != "" {
		if err = api.ValidName("name", g.service); err != nil {
			return g, err
		}
	}
	g.wanted, g.limit = make(map[probe.State]bool), -1
	for i, state := range r.GetStates() {
		wanted, known := states[state]
		if !known {
			return g, api.Invalid(fmt.Sprintf("states[%d]", i), "%d is not a state to wait for; use UNKNOWN, HEALTHY or UNHEALTHY", state)
		}
		if !g.wanted[wanted] { // however often it is named
			g.states, g.wanted[wanted] = append(g.states, state), true
		}
	}
	if len(g.states) == 0 {
		g.states = []openshellv1.ServiceHealthState{openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_HEALTHY}
		g.wanted[probe.Healthy] = true
	}
	if t := r.GetTimeout(); t != nil {
		if t.CheckValid() != nil || t.AsDuration() < 0 {
			return g, api.Invalid("timeout", "is not a duration of 0 s or more")
		}
		g.limit = t.AsDuration()
	}
	return g, nil
}

// lost tells why a goal that is not reached in this glimpse cannot be any
// more; unspecified if it can.
func (g glimpse) lost() sandboxv1.WaitFailureCause {
	switch g.phase {
	case health.Stopping, health.Stopped:
		return sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_SANDBOX_STOPPED
	case health.Deleting:
		return sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_SANDBOX_DELETED
	case health.Error:
		return sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_MAIN_PROCESS_EXITED
	}
	return sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_UNSPECIFIED
}

// WaitService implements sandbox.v1.
func (s *Server) WaitService(ctx context.Context, r *sandboxv1.WaitServiceRequest) (*sandboxv1.WaitServiceResponse, error) {
	began := time.Now()
	g, err := goalOf(r)
	if err != nil {
		return nil, err
	}
	leave, err := s.callers.waits.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	f := filter{workspace: g.workspace, sandbox: g.sandbox, services: []string{g.service}}
	w := &wait{server: s, goal: g, began: began, caller: s.callers.add(f), book: newBook(s.cfg.Started, f.wants())}
	defer s.callers.remove(w.caller)
	ids, services := s.selected(f)
	if services == 0 {
		return nil, status.Error(codes.NotFound, api.ServiceSubject(g.workspace, g.sandbox, g.service)+" does not exist")
	}
	return w.run(ctx, ids)
}

// wait is one WaitService under way.
type wait struct {
	server *Server
	goal   goal
	began  time.Time
	caller *caller
	book   *book
	last   glimpse
}

func (w *wait) run(ctx context.Context, ids []string) (*sandboxv1.WaitServiceResponse, error) {
	limit, stop := w.timer(ctx)
	defer stop()
	alarm := newAlarm()
	defer alarm.stop()
	for {
		if resp, err := w.look(ids); resp != nil || err != nil {
			return resp, err
		}
		alarm.set(w.book.next())
		select {
		case <-w.caller.marks.wake:
			ids, _ = w.caller.marks.take()
		case <-alarm.c():
			ids = w.book.due(time.Now())
		case <-limit:
			return nil, w.fail(sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_TIMEOUT)
		case <-w.server.closed:
			return nil, errClosing
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
}

// answerEarly is how much before the caller's deadline, and at most which part
// of the time that is left, a wait ends by itself, so that the caller gets its
// answer.
const (
	answerEarly     = 200 * time.Millisecond
	answerEarlyPart = 10
)

// timer rings when the time is over: the timeout of the request, or a little
// before the caller's deadline.
func (w *wait) timer(ctx context.Context) (<-chan time.Time, func() bool) {
	limit := w.goal.limit
	if deadline, ok := ctx.Deadline(); ok {
		left := deadline.Sub(w.began)
		left -= min(answerEarly, left/answerEarlyPart)
		if limit < 0 || left < limit {
			limit = max(left, 0)
		}
	}
	if limit < 0 {
		return nil, func() bool { return false }
	}
	t := time.NewTimer(time.Until(w.began.Add(limit)))
	return t.C, t.Stop
}

// look looks at some sandboxes, of which only the one that is waited for has
// news, and returns the answer or the error if the wait is over.
func (w *wait) look(ids []string) (*sandboxv1.WaitServiceResponse, error) {
	for _, id := range ids {
		seen, now := w.server.see(id)
		if !w.caller.filter.sandboxes(seen.record) {
			seen.record = nil
		}
		for _, c := range w.book.look(id, seen, now) {
			if c.gone {
				if seen.record == nil {
					return nil, w.fail(sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_SANDBOX_DELETED)
				}
				return nil, w.fail(sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_SERVICE_DELETED)
			}
			w.last = glimpse{service: c.service, answer: c.answer, phase: c.phase, exitCode: seen.record.exitCode, at: now}
			if w.goal.wanted[c.answer.State] {
				return w.reached(), nil
			}
			if cause := w.last.lost(); cause != sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_UNSPECIFIED {
				return nil, w.fail(cause)
			}
		}
	}
	return nil, nil
}

func (w *wait) reached() *sandboxv1.WaitServiceResponse {
	return &sandboxv1.WaitServiceResponse{
		Service:      w.server.cfg.URLs.Service(w.last.service, w.last.answer, w.last.at),
		SandboxPhase: openshellv1.SandboxPhase(w.last.phase),
		Elapsed:      durationpb.New(time.Since(w.began)),
	}
}
