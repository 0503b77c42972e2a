// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"

	"github.com/sandbox-agent/sandbox-agent/gateway/lifecycle"
	"github.com/sandbox-agent/sandbox-agent/gateway/session"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

// directory shows sessions what is stored.
type directory struct {
	store     *store.Store
	lifecycle *lifecycle.Manager
}

var _ session.Directory = directory{}

// Sandbox implements session.Directory.
func (d directory) Sandbox(ctx context.Context, id string) (session.Sandbox, error) {
	s, err := d.store.SandboxByID(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return session.Sandbox{}, session.ErrNoSandbox
	}
	return session.Sandbox{Generation: s.Generation, Admitted: lifecycle.Admits(s)}, err
}

// Services implements session.Directory.
func (d directory) Services(ctx context.Context, sandboxID string) ([]session.Service, error) {
	stored, err := d.store.ServicesOf(ctx, sandboxID)
	out := make([]session.Service, len(stored))
	for i, s := range stored {
		out[i] = session.Service{ID: s.ID, Service: probe.Service{
			Name: s.Name, Revision: s.Revision, Target: probe.Target{Port: s.Port, Path: s.Path},
		}}
	}
	return out, err
}

// Connected implements session.Directory.
func (d directory) Connected(ctx context.Context, id string, generation uint64, instance string) error {
	err := d.lifecycle.Connected(ctx, id, generation, instance)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, lifecycle.ErrNotAdmitted) {
		return session.ErrNoSandbox
	}
	return err
}

// Exited implements session.Directory.
func (d directory) Exited(ctx context.Context, id string, generation uint64, code int) error {
	return d.lifecycle.Exited(ctx, id, generation, code)
}
