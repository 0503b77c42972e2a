// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"

	"github.com/sandbox-agent/sandbox-agent/gateway/runtime"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
	"github.com/sandbox-agent/sandbox-agent/internal/secret"
)

// Recover takes over after a restart: drivers adopt what should be running,
// and operations that were cut off are finished.
func (m *Manager) Recover(ctx context.Context) error {
	all, err := m.cfg.Store.Sandboxes(ctx, store.SandboxQuery{})
	if err != nil {
		return err
	}
	running := make(map[string][]runtime.Spec)
	var errs []error
	for _, s := range all {
		var err error
		switch s.Lifecycle {
		case store.Stopping:
			_, _, err = m.Stop(ctx, store.Request{}, s.ID, discard)
		case store.Deleting:
			_, _, err = m.remove(ctx, store.Request{}, s.ID, discard)
		case store.Running, store.Starting:
			if s.ExitCode == nil {
				running[s.Driver] = append(running[s.Driver], spec(s, secret.String{}))
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("sandbox %s/%s: %w", s.Workspace, s.Name, err))
		}
	}
	for name, specs := range running {
		d, err := m.driver(name)
		if err == nil {
			err = d.Adopt(ctx, specs)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("driver %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func discard(store.Sandbox) ([]byte, error) { return nil, nil }

// Exited takes note that the main process of one generation of a sandbox has
// ended. A code that is already stored stays, unless it is unknown.
func (m *Manager) Exited(ctx context.Context, id string, generation uint64, code int) error {
	_, _, err := m.cfg.Store.Mutate(ctx, store.Request{}, func(tx store.Tx) ([]byte, error) {
		s, err := tx.SandboxByID(id)
		if errors.Is(err, store.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		asked := s.Lifecycle != store.Running && s.Lifecycle != store.Starting
		known := s.ExitCode != nil && *s.ExitCode != runtime.CodeUnknown
		if s.Generation != generation || asked || known {
			return nil, nil
		}
		c := int32(code)
		s.ExitCode = &c
		_, err = tx.UpdateSandbox(s)
		return nil, err
	})
	return err
}

// Connected takes note that a session of this generation was accepted.
func (m *Manager) Connected(ctx context.Context, id string, generation uint64, instance string) error {
	s, err := m.cfg.Store.SandboxByID(ctx, id)
	if err != nil {
		return err
	}
	if s.Connected && s.ExitCode == nil {
		return nil // nothing to store: sessions come and go
	}
	_, _, err = m.cfg.Store.Mutate(ctx, store.Request{}, func(tx store.Tx) ([]byte, error) {
		s, err := tx.SandboxByID(id)
		if err != nil {
			return nil, err
		}
		if s.Generation != generation || (s.Lifecycle != store.Starting && s.Lifecycle != store.Running) {
			return nil, nil
		}
		s.Lifecycle, s.Connected, s.ExitCode, s.Instance = store.Running, true, nil, instance
		_, err = tx.UpdateSandbox(s)
		return nil, err
	})
	return err
}
