// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"time"

	"github.com/sandbox-agent/sandbox-agent/gateway/runtime"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

// Exited takes note that the main process of one generation of a sandbox has
// ended. A code that is already stored stays, unless it is unknown. What does
// not exist, is of another generation or was asked to end is left as it is.
func (m *Manager) Exited(ctx context.Context, id string, generation uint64, code int) error {
	_, _, err := m.cfg.Store.Mutate(ctx, store.Request{}, func(tx store.Tx) ([]byte, error) {
		s, err := tx.SandboxByID(id)
		if errors.Is(err, store.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if next, changed := exited(s, generation, code, m.cfg.Now()); changed {
			_, err = tx.UpdateSandbox(next)
		}
		return nil, err
	})
	return err
}

// Connected takes note that a session of this generation was accepted. It
// returns ErrNotAdmitted if the sandbox was asked for something else since.
func (m *Manager) Connected(ctx context.Context, id string, generation uint64, instance string) error {
	s, err := m.cfg.Store.SandboxByID(ctx, id)
	if err != nil {
		return err
	}
	// Sessions come and go; most of them change nothing.
	if _, changed, err := connected(s, generation, instance, m.cfg.Now()); err != nil || !changed {
		return err
	}
	_, _, err = m.cfg.Store.Mutate(ctx, store.Request{}, func(tx store.Tx) ([]byte, error) {
		s, err := tx.SandboxByID(id)
		if err != nil {
			return nil, err
		}
		next, changed, err := connected(s, generation, instance, m.cfg.Now())
		if err == nil && changed {
			_, err = tx.UpdateSandbox(next)
		}
		return nil, err
	})
	return err
}

// admits reports whether a sandbox of which this is asked may have a session.
func admits(l store.Lifecycle) bool {
	return l == store.Running || l == store.Starting || l == store.Creating
}

// Admits reports whether agents of a sandbox are accepted.
func Admits(s store.Sandbox) bool { return admits(s.Lifecycle) }

// exited returns the record once the main process of a generation has ended.
func exited(s store.Sandbox, generation uint64, code int, now time.Time) (next store.Sandbox, changed bool) {
	known := s.ExitCode != nil && *s.ExitCode != runtime.CodeUnknown
	if s.Generation != generation || !admits(s.Lifecycle) || known {
		return s, false
	}
	if c := int32(code); s.ExitCode == nil || *s.ExitCode != c {
		s.ExitCode, s.Changed = &c, now
		return s, true
	}
	return s, false
}

// connected returns the record once a session of a generation was accepted. An
// exit that is stored was that of an earlier life of the agent.
func connected(s store.Sandbox, generation uint64, instance string, now time.Time) (next store.Sandbox, changed bool, err error) {
	switch {
	case s.Generation != generation || !admits(s.Lifecycle):
		return s, false, ErrNotAdmitted
	case s.Lifecycle != store.Starting && s.Connected && s.ExitCode == nil && s.Instance == instance:
		return s, false, nil
	}
	if !s.Connected || s.ExitCode != nil {
		s.Changed = now
	}
	if s.Lifecycle == store.Starting {
		s.Lifecycle = store.Running
	}
	s.Connected, s.ExitCode, s.Instance = true, nil, instance
	return s, true, nil
}
