// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sandbox-agent/sandbox-agent/gateway/lifecycle"
	"github.com/sandbox-agent/sandbox-agent/gateway/runtime"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

// invalid is an InvalidArgument that names the field and what is wrong.
func invalid(field, format string, args ...any) error {
	return status.Error(codes.InvalidArgument, field+": "+fmt.Sprintf(format, args...))
}

// fail turns an error into a status. subject says in people's words what was
// asked for, such as: sandbox "web" in workspace "default". What the client
// can do nothing about is logged and answered without its text.
func (s *Server) fail(subject string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return status.Error(codes.NotFound, subject+" does not exist")
	case errors.Is(err, store.ErrExists):
		return status.Error(codes.AlreadyExists, subject+" exists already")
	case errors.Is(err, store.ErrConflict):
		return status.Error(codes.Aborted, subject+" was changed by somebody else meanwhile: read it and try again")
	case errors.Is(err, store.ErrRequestMismatch):
		return invalid("request_id", "was used within 24 hours for another request; every request needs an id of its own")
	case errors.Is(err, store.ErrTooMany):
		return status.Errorf(codes.ResourceExhausted, "%s: a sandbox has at most %d services", subject, store.MaxServices)
	case errors.Is(err, store.ErrInvalid):
		return status.Error(codes.InvalidArgument, subject+": holds text that cannot be stored")
	case errors.Is(err, store.ErrBusy):
		return status.Error(codes.Unavailable, "the store is locked by another process: try again")
	case errors.Is(err, lifecycle.ErrUnknownDriver):
		return invalid("annotations["+DriverAnnotation+"]", "%v: use external or local", err)
	case errors.Is(err, lifecycle.ErrDeleting):
		return status.Error(codes.FailedPrecondition, subject+" is being deleted")
	case errors.Is(err, runtime.ErrUnsupported), errors.Is(err, runtime.ErrRunning):
		return status.Error(codes.FailedPrecondition, err.Error())
	case errors.Is(err, runtime.ErrInvalid):
		return status.Error(codes.InvalidArgument, err.Error())
	case errors.Is(err, runtime.ErrClosed):
		return status.Error(codes.Unavailable, "the gateway is stopping: try again")
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, subject+": not finished in time; read it to see what became of it")
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, subject+": the caller left")
	}
	s.cfg.Logger.Error("request failed", "subject", subject, "error", err)
	return status.Error(codes.Internal, subject+": the gateway could not do it; its log says why")
}

func sandboxSubject(workspace, name string) string {
	return fmt.Sprintf("sandbox %q in workspace %q", name, workspace)
}

func serviceSubject(workspace, sandbox, name string) string {
	if name == "" {
		return fmt.Sprintf("the unnamed service of %s", sandboxSubject(workspace, sandbox))
	}
	return fmt.Sprintf("service %q of %s", name, sandboxSubject(workspace, sandbox))
}
