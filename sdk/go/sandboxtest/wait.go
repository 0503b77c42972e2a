// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
)

// waiting is a WaitService under way.
type waiting struct {
	*Gateway
	request *sandboxv1.WaitServiceRequest
	key     key
	began   time.Time
	found   bool
	last    *openshellv1.ServiceHealth
	sandbox *openshellv1.Sandbox
}

func (w *waiting) wanted() []openshellv1.ServiceHealthState {
	if len(w.request.GetStates()) == 0 {
		return []openshellv1.ServiceHealthState{openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_HEALTHY}
	}
	return w.request.GetStates()
}

// look returns the answer if there is one, otherwise a channel that is closed
// when something has changed.
func (w *waiting) look() (*sandboxv1.WaitServiceResponse, <-chan struct{}, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	sandbox := w.sandboxes[key{w.key.workspace, w.key.sandbox, ""}]
	if w.services[w.key] == nil {
		switch {
		case !w.found:
			return nil, nil, noService(w.key)
		case sandbox == nil:
			return nil, nil, w.fail(codes.FailedPrecondition, sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_SANDBOX_DELETED)
		}
		return nil, nil, w.fail(codes.FailedPrecondition, sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_SERVICE_DELETED)
	}
	answer := w.answer(w.key)
	w.found, w.last, w.sandbox = true, answer.GetHealth(), proto.CloneOf(sandbox)
	if slices.Contains(w.wanted(), answer.GetHealth().GetState()) {
		return &sandboxv1.WaitServiceResponse{
			Service: answer, SandboxPhase: w.sandbox.GetStatus().GetPhase(), Elapsed: durationpb.New(time.Since(w.began)),
		}, nil, nil
	}
	switch w.sandbox.GetStatus().GetPhase() {
	case openshellv1.SandboxPhase_SANDBOX_PHASE_STOPPED, openshellv1.SandboxPhase_SANDBOX_PHASE_STOPPING:
		return nil, nil, w.fail(codes.FailedPrecondition, sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_SANDBOX_STOPPED)
	case openshellv1.SandboxPhase_SANDBOX_PHASE_ERROR:
		return nil, nil, w.fail(codes.FailedPrecondition, sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_MAIN_PROCESS_EXITED)
	case openshellv1.SandboxPhase_SANDBOX_PHASE_DELETING:
		return nil, nil, w.fail(codes.FailedPrecondition, sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_SANDBOX_DELETED)
	}
	return nil, w.changed, nil
}

// fail is the status of a wait that has ended, with its detail.
func (w *waiting) fail(code codes.Code, cause sandboxv1.WaitFailureCause) error {
	f := &sandboxv1.WaitFailure{
		Cause: cause, Workspace: w.key.workspace, Sandbox: w.key.sandbox, Name: w.key.service, States: w.wanted(),
		Elapsed: durationpb.New(time.Since(w.began)), LastHealth: w.last, SandboxPhase: w.sandbox.GetStatus().GetPhase(),
		ExitCode: w.sandbox.GetStatus().ExitCode,
	}
	var states []string
	for _, s := range f.GetStates() {
		states = append(states, short(s))
	}
	why := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(cause.String(), "WAIT_FAILURE_CAUSE_"), "_", " "))
	text := fmt.Sprintf("service %q of sandbox %q is not %s: %s; last seen %s (%s)",
		w.key.service, w.key.sandbox, strings.Join(states, " or "), why, short(w.last.GetState()), w.last.GetReason())
	s := status.New(code, text)
	if detailed, err := s.WithDetails(f); err == nil {
		s = detailed
	}
	return s.Err()
}

func short(s openshellv1.ServiceHealthState) string {
	return strings.TrimPrefix(s.String(), "SERVICE_HEALTH_STATE_")
}

// ListServiceTransitions implements the API: what PutTransitions has given.
func (g *Gateway) ListServiceTransitions(_ context.Context, r *sandboxv1.ListServiceTransitionsRequest) (*sandboxv1.ListServiceTransitionsResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	workspace, err := one(r.GetWorkspaceScope())
	if err != nil {
		return nil, err
	}
	k := key{workspace, r.GetSandbox(), r.GetName()}
	if g.services[k] == nil {
		return nil, noService(k)
	}
	resp := proto.CloneOf(g.transitions[k])
	if resp == nil {
		resp = &sandboxv1.ListServiceTransitionsResponse{RecordedSince: timestamppb.New(g.o.Now())}
	}
	resp.Service = g.answer(k)
	if resp.ReadTime == nil {
		resp.ReadTime = timestamppb.New(g.o.Now())
	}
	return resp, nil
}

// PutTransitions stores the history of a service; its Service is that of the
// gateway, and its ReadTime too where there is none.
func (g *Gateway) PutTransitions(workspace, sandbox, service string, t *sandboxv1.ListServiceTransitionsResponse) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.transitions[key{workspaceOr(workspace), sandbox, service}] = proto.CloneOf(t)
}
