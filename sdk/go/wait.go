// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
)

// WaitError is a wait that has ended without the state it was for. It is
// ErrTimeout when the time was over and ErrFailedPrecondition when the state
// cannot be reached any more.
type WaitError struct {
	err *Error
	// Failure says what was waited for, how long in all, why the wait has
	// ended, and what was seen last. LastHealth is absent if the gateway could
	// not be asked.
	Failure *sandboxv1.WaitFailure
}

// Error is the text of the Error, which says what Failure says.
func (e *WaitError) Error() string { return e.err.Error() }

// Unwrap returns the *Error.
func (e *WaitError) Unwrap() error { return e.err }

// waitGrace is how much longer than the timeout that the gateway knows of a
// call may take, so that it is the gateway that answers.
const waitGrace = 2 * time.Second

// WaitService waits until the health of a service is one of req.States, or
// HEALTHY if there are none; it returns at once if it is already. It ends with
// ctx, and after req.Timeout if there is one. If the gateway is lost meanwhile
// it connects again and goes on waiting; one that is not reached at first is
// ErrUnavailable.
//
// Errors: *WaitError (ErrTimeout, ErrFailedPrecondition), ErrNotFound,
// ErrInvalidArgument, ErrResourceExhausted; ErrCanceled when ctx is canceled.
func (c *Client) WaitService(ctx context.Context, req *sandboxv1.WaitServiceRequest) (*sandboxv1.WaitServiceResponse, error) {
	began := time.Now()
	if req.GetTimeout().IsValid() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, began.Add(req.GetTimeout().AsDuration()+waitGrace))
		defer cancel()
	}
	var reached peer.Peer
	for failures := 0; ; failures++ {
		own := &sandboxv1.WaitServiceRequest{}
		proto.Merge(own, req)
		if req.GetTimeout().IsValid() {
			own.Timeout = durationpb.New(max(req.GetTimeout().AsDuration()-time.Since(began), 0))
		}
		resp, err := c.watch.WaitService(ctx, own, grpc.WaitForReady(failures > 0), grpc.Peer(&reached))
		if err == nil {
			resp.Elapsed = durationpb.New(time.Since(began))
			return resp, nil
		}
		err = waitError(req, began, err)
		if _, over := errors.AsType[*WaitError](err); over || ctx.Err() != nil || !transient(err) || reached.Addr == nil {
			return nil, err
		}
		if err := pauseOf(ctx, redialAfter(failures)); err != nil {
			return nil, waitError(req, began, status.FromContextError(err).Err())
		}
	}
}

// pauseOf waits, or returns the context's error.
func pauseOf(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// waitError is the error of a wait that began at an instant.
func waitError(req *sandboxv1.WaitServiceRequest, began time.Time, err error) error {
	e := wrap("wait for service", err).(*Error)
	elapsed := time.Since(began)
	for _, d := range status.Convert(err).Details() {
		if f, ok := d.(*sandboxv1.WaitFailure); ok {
			f.Elapsed = durationpb.New(elapsed)
			return &WaitError{err: e, Failure: f}
		}
	}
	if e.Code != codes.DeadlineExceeded {
		return e
	}
	e.Message = fmt.Sprintf("the gateway has not said within %v how service %q of sandbox %q is", elapsed.Round(10*time.Millisecond), req.GetName(), req.GetSandbox())
	return &WaitError{err: e, Failure: &sandboxv1.WaitFailure{
		Cause: sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_TIMEOUT, Workspace: req.GetWorkspaceScope().GetWorkspace(),
		Sandbox: req.GetSandbox(), Name: req.GetName(), States: req.GetStates(), Elapsed: durationpb.New(elapsed),
	}}
}

// ServiceTransitions tells how the health of a service has changed, as far as
// the gateway remembers. Errors: ErrNotFound, ErrInvalidArgument.
func (c *Client) ServiceTransitions(ctx context.Context, req *sandboxv1.ListServiceTransitionsRequest) (*sandboxv1.ListServiceTransitionsResponse, error) {
	return call(ctx, "list service transitions", c.watch.ListServiceTransitions, req)
}
