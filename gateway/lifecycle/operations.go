// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"

	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

// Encode makes the response that is stored for replay. It runs in a
// transaction and must not call the Store.
type Encode func(store.Sandbox) ([]byte, error)

// Stop ends a sandbox's processes and session. A sandbox that is stopped stays
// so.
func (m *Manager) Stop(ctx context.Context, req store.Request, id string, encode Encode) (response []byte, replayed bool, err error) {
	return m.operate(ctx, req, id, func(ctx context.Context) ([]byte, bool, error) {
		s, err := m.cfg.Store.SandboxByID(ctx, id)
		if err != nil {
			return nil, false, err
		}
		if s.Lifecycle == store.Deleting {
			return nil, false, ErrDeleting
		}
		return m.stop(ctx, req, s, encode)
	})
}

func (m *Manager) stop(ctx context.Context, req store.Request, s store.Sandbox, encode Encode) ([]byte, bool, error) {
	if s.Lifecycle == store.Stopped {
		return m.answer(ctx, req, s.ID, nil, encode)
	}
	if err := m.ask(ctx, s.ID, store.Stopping); err != nil {
		return nil, false, err
	}
	if err := m.halt(ctx, s); err != nil {
		return nil, false, err
	}
	return m.answer(ctx, req, s.ID, func(s *store.Sandbox) { s.Lifecycle = store.Stopped }, encode)
}

// halt ends the processes, then whatever session is left.
func (m *Manager) halt(ctx context.Context, s store.Sandbox) error {
	d, err := m.driver(s.Driver)
	if err != nil {
		return err
	}
	err = d.Stop(ctx, s.ID)
	m.cfg.Disconnect(s.ID)
	return err
}

// Start begins a new generation of a sandbox that was stopped or whose main
// process has exited; one that is up is left as it is. If it does not boot it
// is stopped.
func (m *Manager) Start(ctx context.Context, req store.Request, id string, encode Encode) (response []byte, replayed bool, err error) {
	return m.operate(ctx, req, id, func(ctx context.Context) ([]byte, bool, error) {
		s, err := m.cfg.Store.SandboxByID(ctx, id)
		switch {
		case err != nil:
			return nil, false, err
		case s.Lifecycle == store.Deleting:
			return nil, false, ErrDeleting
		case up(s):
			return m.answer(ctx, req, id, nil, encode)
		}
		if err := m.restart(ctx, s); err != nil {
			return nil, false, err
		}
		return m.answer(ctx, req, id, nil, encode)
	})
}

// up reports whether a sandbox was asked to run and has not exited.
func up(s store.Sandbox) bool { return s.ExitCode == nil && admits(s.Lifecycle) }

// restart boots a new generation.
func (m *Manager) restart(ctx context.Context, s store.Sandbox) error {
	if err := m.halt(ctx, s); err != nil { // what an exited main process has left
		return err
	}
	m.cfg.Cache.Forget(s.ID)
	s, err := m.update(ctx, s.ID, func(s *store.Sandbox) {
		s.Generation++
		s.Lifecycle, s.Connected, s.ExitCode, s.Instance = store.Starting, false, nil, ""
	})
	if err != nil {
		return err
	}
	err = m.boot(ctx, s)
	if err == nil {
		return nil
	}
	ctx, end := m.begin(ctx) // the boot may have used the operation's time up
	defer end()
	return errors.Join(err, m.ask(ctx, s.ID, store.Stopped))
}

// Delete ends a sandbox and removes it with its services.
func (m *Manager) Delete(ctx context.Context, req store.Request, id string, encode Encode) (response []byte, replayed bool, err error) {
	return m.operate(ctx, req, id, func(ctx context.Context) ([]byte, bool, error) {
		if err := m.ask(ctx, id, store.Deleting); err != nil {
			return nil, false, err
		}
		s, err := m.cfg.Store.SandboxByID(ctx, id)
		if err != nil {
			return nil, false, err
		}
		return m.remove(ctx, req, s, encode)
	})
}

func (m *Manager) remove(ctx context.Context, req store.Request, s store.Sandbox, encode Encode) ([]byte, bool, error) {
	d, err := m.driver(s.Driver)
	if err != nil {
		return nil, false, err
	}
	err = d.Delete(ctx, s.ID)
	m.cfg.Disconnect(s.ID)
	if err != nil {
		return nil, false, err
	}
	response, replayed, err := m.cfg.Store.Mutate(ctx, req, func(tx store.Tx) ([]byte, error) {
		if err := tx.DeleteSandbox(s.ID); err != nil {
			return nil, err
		}
		return encode(s)
	})
	m.cfg.Cache.Forget(s.ID)
	return response, replayed, err
}

// answer stores the response to a request, together with a change of the
// sandbox unless edit is nil.
func (m *Manager) answer(ctx context.Context, req store.Request, id string, edit func(*store.Sandbox), encode Encode) ([]byte, bool, error) {
	return m.cfg.Store.Mutate(ctx, req, func(tx store.Tx) ([]byte, error) {
		s, err := tx.SandboxByID(id)
		if err == nil && edit != nil {
			edit(&s)
			s, err = tx.UpdateSandbox(s)
		}
		if err != nil {
			return nil, err
		}
		return encode(s)
	})
}

// update stores a change of a sandbox and returns it as stored.
func (m *Manager) update(ctx context.Context, id string, edit func(*store.Sandbox)) (s store.Sandbox, err error) {
	_, _, err = m.answer(ctx, store.Request{}, id, edit, func(stored store.Sandbox) ([]byte, error) {
		s = stored
		return nil, nil
	})
	return s, err
}

// ask stores what is asked of a sandbox now.
func (m *Manager) ask(ctx context.Context, id string, l store.Lifecycle) error {
	_, err := m.update(ctx, id, func(s *store.Sandbox) { s.Lifecycle = l })
	return err
}
