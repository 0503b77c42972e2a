// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"

	"github.com/sandbox-agent/sandbox-agent/gateway/runtime"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
	"github.com/sandbox-agent/sandbox-agent/internal/secret"
)

// EncodeNew is Encode for a new sandbox and its services.
type EncodeNew func(store.Sandbox, []store.Service) ([]byte, error)

// Create stores a sandbox, whose ID is set, with its services and boots it. If
// it does not boot, or its response cannot be stored, nothing is left.
func (m *Manager) Create(ctx context.Context, req store.Request, s store.Sandbox, services []store.Service, encode EncodeNew) (response []byte, replayed bool, err error) {
	if _, err := m.driver(s.Driver); err != nil {
		return nil, false, err
	}
	return m.operate(ctx, req, s.ID, func(ctx context.Context) ([]byte, bool, error) {
		stored, services, err := m.insert(ctx, s, services)
		if err != nil {
			return nil, false, err
		}
		var response []byte
		var replayed bool
		err = m.boot(ctx, stored)
		if err == nil {
			response, replayed, err = m.answer(ctx, req, s.ID, created, func(s store.Sandbox) ([]byte, error) { return encode(s, services) })
		}
		if err != nil {
			m.undo(ctx, stored)
		}
		return response, replayed, err
	})
}

// created edits a sandbox that has booted. Its agent may have been faster.
func created(s *store.Sandbox) {
	if s.Lifecycle == store.Creating {
		s.Lifecycle = store.Running
	}
}

// insert stores a sandbox that is about to boot.
func (m *Manager) insert(ctx context.Context, s store.Sandbox, services []store.Service) (stored store.Sandbox, out []store.Service, err error) {
	s.Lifecycle = store.Creating
	_, _, err = m.cfg.Store.Mutate(ctx, store.Request{}, func(tx store.Tx) ([]byte, error) {
		if stored, err = tx.InsertSandbox(s); err != nil {
			return nil, err
		}
		for _, svc := range services {
			svc.SandboxID = stored.ID
			if svc, err = tx.InsertService(svc); err != nil {
				return nil, err
			}
			out = append(out, svc)
		}
		return nil, nil
	})
	return stored, out, err
}

// undo removes a sandbox that could not be created. What it cannot remove is
// left to Recover.
func (m *Manager) undo(ctx context.Context, s store.Sandbox) {
	ctx, end := m.begin(ctx) // the boot may have used the operation's time up
	defer end()
	if _, _, err := m.remove(ctx, store.Request{}, s, discard); err != nil {
		m.cfg.Logger.Warn("removing a sandbox that could not be created failed", "sandbox_id", s.ID, "error", err)
	}
}

func discard(store.Sandbox) ([]byte, error) { return nil, nil }

// boot issues a token and starts the sandbox's current generation.
func (m *Manager) boot(ctx context.Context, s store.Sandbox) error {
	d, err := m.driver(s.Driver)
	if err != nil {
		return err
	}
	token, _, err := m.cfg.Issue(s.ID, s.Generation)
	if err != nil {
		return err
	}
	return d.Start(ctx, spec(s, token))
}

func spec(s store.Sandbox, token secret.String) runtime.Spec {
	return runtime.Spec{
		ID: s.ID, Workspace: s.Workspace, Name: s.Name, Generation: s.Generation, Token: token,
		Command: s.Command, Environment: s.Environment, LogLevel: s.LogLevel,
	}
}
