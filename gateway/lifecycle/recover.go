// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/sandbox-agent/sandbox-agent/gateway/runtime"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
	"github.com/sandbox-agent/sandbox-agent/internal/secret"
)

// Recover takes over after a restart: drivers adopt what should be running,
// and operations that were cut off are finished. Operations may be under way
// meanwhile; those that another gateway may be at are looked at again after
// Patience.
func (m *Manager) Recover(ctx context.Context) error {
	all, err := m.cfg.Store.Sandboxes(ctx, store.SandboxQuery{})
	if err != nil {
		return err
	}
	errs := []error{m.adopt(ctx, all)}
	var later []store.Sandbox
	for _, s := range all {
		switch {
		case !unfinished(s):
		case m.others(s):
			later = append(later, s)
		default:
			errs = append(errs, m.finish(ctx, s))
		}
	}
	if len(later) == 0 {
		return errors.Join(errs...)
	}
	patience := time.NewTimer(m.cfg.Patience)
	defer patience.Stop()
	select {
	case <-patience.C:
	case <-ctx.Done():
		return errors.Join(append(errs, ctx.Err())...)
	}
	for _, s := range later {
		errs = append(errs, m.finish(ctx, s))
	}
	return errors.Join(errs...)
}

// unfinished reports whether an operation on a sandbox has begun and not ended.
func unfinished(s store.Sandbox) bool {
	return s.Lifecycle == store.Stopping || s.Lifecycle == store.Deleting || s.Lifecycle == store.Creating
}

// others reports whether another gateway may be at the operation.
func (m *Manager) others(s store.Sandbox) bool { return m.cfg.Now().Sub(s.Changed) < m.cfg.Patience }

// finish completes what was asked of a sandbox, in its turn: somebody may have
// asked for something else since it was listed.
func (m *Manager) finish(ctx context.Context, listed store.Sandbox) error {
	_, _, err := m.operate(ctx, store.Request{}, listed.ID, func(ctx context.Context) ([]byte, bool, error) {
		s, err := m.cfg.Store.SandboxByID(ctx, listed.ID)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil, false, nil
		case err != nil:
			return nil, false, err
		case m.others(s):
			return nil, false, nil
		case s.Lifecycle == store.Stopping:
			return m.stop(ctx, store.Request{}, s, discard)
		case s.Lifecycle == store.Deleting || s.Lifecycle == store.Creating:
			return m.remove(ctx, store.Request{}, s, discard)
		}
		return nil, false, nil
	})
	if err != nil {
		return fmt.Errorf("sandbox %s/%s: %w", listed.Workspace, listed.Name, err)
	}
	return nil
}

// adopt makes the drivers take over what should be running. It has the turns
// of all these sandboxes, so that none is started anew meanwhile: a driver would
// take that for a remnant.
func (m *Manager) adopt(ctx context.Context, all []store.Sandbox) error {
	running := make(map[string][]runtime.Spec)
	var errs []error
	for _, s := range all {
		unlock, err := m.lock(ctx, s.ID)
		if err != nil {
			return err
		}
		defer unlock()
		s, err = m.cfg.Store.SandboxByID(ctx, s.ID)
		if err == nil && up(s) && s.Lifecycle != store.Creating {
			running[s.Driver] = append(running[s.Driver], spec(s, secret.String{}))
			err = m.handOver(s)
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
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

// handOver replaces the token of a sandbox that is starting: the start may have
// been cut off before it did so.
func (m *Manager) handOver(s store.Sandbox) error {
	if s.Lifecycle != store.Starting {
		return nil
	}
	d, err := m.driver(s.Driver)
	if err != nil {
		return err
	}
	token, _, err := m.cfg.Issue(s.ID, s.Generation)
	if err == nil {
		err = d.RenewToken(s.ID, token)
	}
	if errors.Is(err, fs.ErrNotExist) { // it never got so far
		return nil
	}
	return err
}
