// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"context"
	"errors"

	"github.com/sandbox-agent/sandbox-agent/mux"
)

// Errors of a Directory.
var (
	// ErrNoSandbox: there is no sandbox of that name.
	ErrNoSandbox = errors.New("no such sandbox")
	// ErrNoService: the sandbox has no service of that name.
	ErrNoService = errors.New("no such service")
)

// Endpoint is what a Router needs of a service.
type Endpoint struct {
	SandboxID string
	Service   string // its name
	Port      uint16
	// Phase is the word for the sandbox's phase, in lower case.
	Phase string
	// Open says that the phase is one in which services are served.
	Open bool
}

// Directory knows the services. It is asked for every request.
type Directory interface {
	// Endpoint returns a service, ErrNoSandbox or ErrNoService. Any other error
	// means that it could not be found out.
	Endpoint(ctx context.Context, name Name) (Endpoint, error)
}

// Relays opens connections to services. The errors are those of
// mux.Session.OpenRelay and, from the first Read, of mux.Relay.Await.
type Relays interface {
	OpenRelay(ctx context.Context, sandboxID, service string) (mux.Duplex, error)
}
