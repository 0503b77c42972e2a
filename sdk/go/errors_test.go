// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
	"github.com/sandbox-agent/sandbox-agent/sdk/go/sandboxtest"
)

func TestErrorKinds(t *testing.T) {
	g := sandboxtest.New(sandboxtest.Options{})
	c := sandboxtest.Start(t, g)
	kinds := map[codes.Code]error{
		codes.NotFound: sandbox.ErrNotFound, codes.AlreadyExists: sandbox.ErrAlreadyExists,
		codes.InvalidArgument: sandbox.ErrInvalidArgument, codes.FailedPrecondition: sandbox.ErrFailedPrecondition,
		codes.Aborted: sandbox.ErrAborted, codes.Unauthenticated: sandbox.ErrUnauthenticated,
		codes.PermissionDenied: sandbox.ErrPermissionDenied, codes.Unavailable: sandbox.ErrUnavailable,
		codes.DeadlineExceeded: sandbox.ErrTimeout, codes.Canceled: sandbox.ErrCanceled,
		codes.ResourceExhausted: sandbox.ErrResourceExhausted, codes.Unimplemented: sandbox.ErrUnimplemented,
		codes.Internal: sandbox.ErrInternal,
	}
	for code := range kinds {
		g.Fail("GetService", status.Error(code, "why"))
		_, err := c.GetService(t.Context(), &openshellv1.GetServiceRequest{Sandbox: "web"})
		for other, kind := range kinds {
			if errors.Is(err, kind) != (other == code) {
				t.Errorf("code %v: errors.Is(err, %v) = %v", code, kind, !(other == code))
			}
		}
		if errors.Is(err, context.DeadlineExceeded) != (code == codes.DeadlineExceeded) || errors.Is(err, context.Canceled) != (code == codes.Canceled) {
			t.Errorf("code %v: wrong context error", code)
		}
		if s, ok := status.FromError(err); !ok || s.Code() != code {
			t.Errorf("code %v: status.FromError = %v, %v", code, s, ok)
		}
		failed, ok := errors.AsType[*sandbox.Error](err)
		if !ok || failed.Op != "get service" || failed.Message != "why" || failed.Code != code {
			t.Errorf("code %v: %+v", code, failed)
		}
	}
}

func TestErrorText(t *testing.T) {
	g := sandboxtest.New(sandboxtest.Options{})
	c := sandboxtest.Start(t, g)
	for message, want := range map[string]string{
		"no such service":    "sandbox: get service: failed precondition: no such service",
		"evil \x1b[2J\u202e": `sandbox: get service: failed precondition: "evil \x1b[2J\u202e"`,
	} {
		g.Fail("GetService", status.Error(codes.FailedPrecondition, message))
		_, err := c.GetService(t.Context(), nil)
		if err == nil || err.Error() != want {
			t.Errorf("error text %q, want %q", err, want)
		}
	}
	if got := sandbox.ErrNotFound.Error(); got != "sandbox: not found" {
		t.Errorf("sentinel says %q", got)
	}
}

// The context of a call bounds it, and the error says so.
func TestCallEndsWithItsContext(t *testing.T) {
	g := sandboxtest.New(sandboxtest.Options{})
	g.Hang("GetService")
	c := sandboxtest.Start(t, g)
	late, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := c.GetService(late, nil); !errors.Is(err, sandbox.ErrTimeout) {
		t.Errorf("deadline: %v, want ErrTimeout", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.GetService(ended, nil); !errors.Is(err, sandbox.ErrCanceled) || !strings.Contains(err.Error(), "get service") {
		t.Errorf("canceled: %v, want ErrCanceled", err)
	}
}
