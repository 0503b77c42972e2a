// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"

	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

// Create stores a sandbox with its services and boots it; if it does not boot,
// nothing is stored. The response of encode is what a replay gets.
func (m *Manager) Create(ctx context.Context, req store.Request, s store.Sandbox, services []store.Service, encode func(store.Sandbox, []store.Service) ([]byte, error)) (response []byte, replayed bool, err error) {
	if _, err := m.driver(s.Driver); err != nil {
		return nil, false, err
	}
	booted := false
	response, replayed, err = m.cfg.Store.Mutate(ctx, req, func(tx store.Tx) ([]byte, error) {
		stored, err := tx.InsertSandbox(s)
		if err != nil {
			return nil, err
		}
		for i := range services {
			services[i].SandboxID, services[i].Workspace, services[i].Sandbox = stored.ID, stored.Workspace, stored.Name
			if services[i], err = tx.InsertService(services[i]); err != nil {
				return nil, err
			}
		}
		response, err := encode(stored, services)
		if err != nil {
			return nil, err
		}
		if err := m.boot(ctx, stored); err != nil {
			return nil, err
		}
		booted = true
		return response, nil
	})
	if err != nil && booted {
		if err := m.cfg.Drivers[s.Driver].Delete(context.WithoutCancel(ctx), s.ID); err != nil {
			m.cfg.Logger.Warn("removing a sandbox that could not be stored failed", "sandbox_id", s.ID, "error", err)
		}
	}
	return response, replayed, err
}

// Stop ends a sandbox's processes and session. A sandbox that is stopped stays
// so.
func (m *Manager) Stop(ctx context.Context, req store.Request, id string, encode Encode) (response []byte, replayed bool, err error) {
	type reply struct {
		response []byte
		replayed bool
	}
	r, err := detached(ctx, m, id, func(ctx context.Context) (reply, error) {
		if response, replayed, err := m.lookup(ctx, req); replayed || err != nil {
			return reply{response, replayed}, err
		}
		s, err := m.cfg.Store.SandboxByID(ctx, id)
		if err != nil {
			return reply{}, err
		}
		if s.Lifecycle == store.Deleting {
			return reply{}, ErrDeleting
		}
		if s.Lifecycle != store.Stopped {
			if err := m.setLifecycle(ctx, id, store.Stopping); err != nil {
				return reply{}, err
			}
			if err := m.halt(ctx, s); err != nil {
				return reply{}, err
			}
		}
		response, replayed, err := m.change(ctx, req, id, encode, func(s *store.Sandbox) { s.Lifecycle = store.Stopped })
		return reply{response, replayed}, err
	})
	return r.response, r.replayed, err
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
// process has exited; any other is left as it is.
func (m *Manager) Start(ctx context.Context, req store.Request, id string, encode Encode) (response []byte, replayed bool, err error) {
	type reply struct {
		response []byte
		replayed bool
	}
	r, err := detached(ctx, m, id, func(ctx context.Context) (reply, error) {
		if response, replayed, err := m.lookup(ctx, req); replayed || err != nil {
			return reply{response, replayed}, err
		}
		s, err := m.cfg.Store.SandboxByID(ctx, id)
		if err != nil {
			return reply{}, err
		}
		switch {
		case s.Lifecycle == store.Deleting:
			return reply{}, ErrDeleting
		case s.Lifecycle != store.Stopped && s.ExitCode == nil:
			response, replayed, err := m.change(ctx, req, id, encode, func(*store.Sandbox) {})
			return reply{response, replayed}, err
		}
		if err := m.halt(ctx, s); err != nil { // what an exited main process has left
			return reply{}, err
		}
		m.cfg.Cache.Forget(id)
		response, replayed, err := m.change(ctx, req, id, encode, func(s *store.Sandbox) {
			s.Generation++
			s.Lifecycle, s.Connected, s.ExitCode, s.Instance = store.Starting, false, nil, ""
		})
		if err != nil || replayed {
			return reply{response, replayed}, err
		}
		if s, err = m.cfg.Store.SandboxByID(ctx, id); err != nil {
			return reply{}, err
		}
		if err := m.boot(ctx, s); err != nil {
			return reply{}, errors.Join(err, m.setLifecycle(ctx, id, store.Stopped))
		}
		return reply{response: response}, nil
	})
	return r.response, r.replayed, err
}

// change stores one change of a sandbox and the response to a request.
func (m *Manager) change(ctx context.Context, req store.Request, id string, encode Encode, edit func(*store.Sandbox)) ([]byte, bool, error) {
	return m.cfg.Store.Mutate(ctx, req, func(tx store.Tx) ([]byte, error) {
		s, err := tx.SandboxByID(id)
		if err != nil {
			return nil, err
		}
		edit(&s)
		if s, err = tx.UpdateSandbox(s); err != nil {
			return nil, err
		}
		return encode(s)
	})
}

// Delete ends a sandbox and removes it with its services.
func (m *Manager) Delete(ctx context.Context, req store.Request, id string, encode Encode) (response []byte, replayed bool, err error) {
	type reply struct {
		response []byte
		replayed bool
	}
	r, err := detached(ctx, m, id, func(ctx context.Context) (reply, error) {
		if response, replayed, err := m.lookup(ctx, req); replayed || err != nil {
			return reply{response, replayed}, err
		}
		if err := m.setLifecycle(ctx, id, store.Deleting); err != nil {
			return reply{}, err
		}
		response, replayed, err := m.remove(ctx, req, id, encode)
		return reply{response, replayed}, err
	})
	return r.response, r.replayed, err
}

func (m *Manager) remove(ctx context.Context, req store.Request, id string, encode Encode) ([]byte, bool, error) {
	s, err := m.cfg.Store.SandboxByID(ctx, id)
	if err != nil {
		return nil, false, err
	}
	d, err := m.driver(s.Driver)
	if err != nil {
		return nil, false, err
	}
	err = d.Delete(ctx, id)
	m.cfg.Disconnect(id)
	if err != nil {
		return nil, false, err
	}
	response, replayed, err := m.cfg.Store.Mutate(ctx, req, func(tx store.Tx) ([]byte, error) {
		if err := tx.DeleteSandbox(id); err != nil {
			return nil, err
		}
		return encode(s)
	})
	m.cfg.Cache.Forget(id)
	return response, replayed, err
}
