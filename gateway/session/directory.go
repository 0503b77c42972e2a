// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"

	"github.com/sandbox-agent/sandbox-agent/probe"
)

// ErrNoSandbox is returned by a Directory for a sandbox that does not exist.
var ErrNoSandbox = errors.New("no such sandbox")

// Sandbox is what a Server needs of a sandbox's stored record.
type Sandbox struct {
	Generation uint64
	// Admitted is false where the sandbox was asked to stop or to go.
	Admitted bool
}

// Service is what a Server needs of a service's stored record.
type Service struct {
	ID string
	probe.Service
}

// Directory is the stored desired state. Its methods are called from many
// goroutines.
type Directory interface {
	// Sandbox returns a sandbox, or ErrNoSandbox.
	Sandbox(ctx context.Context, id string) (Sandbox, error)
	// Services returns all services of a sandbox.
	Services(ctx context.Context, sandboxID string) ([]Service, error)
	// Connected takes note that a session of this generation was accepted.
	Connected(ctx context.Context, sandboxID string, generation uint64, instance string) error
	// Exited takes note that the main process of this generation has ended.
	Exited(ctx context.Context, sandboxID string, generation uint64, code int) error
}
