// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/gateway/runtime"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
	"github.com/sandbox-agent/sandbox-agent/internal/secret"
)

// Errors of a Manager's operations, beside those of the store.
var (
	// ErrUnknownDriver: no such driver is configured.
	ErrUnknownDriver = errors.New("unknown driver")
	// ErrDeleting: the sandbox is being deleted.
	ErrDeleting = errors.New("the sandbox is being deleted")
)

// opTimeout bounds an operation that goes on after its caller has left.
const opTimeout = time.Minute

// Config is what a Manager works with.
type Config struct {
	Store   *store.Store
	Drivers map[string]runtime.Driver
	// Issue makes a sandbox token.
	Issue func(sandboxID string, generation uint64) (secret.String, time.Time, error)
	// Disconnect ends the session of a sandbox.
	Disconnect func(sandboxID string)
	Cache      *health.Cache
	Logger     *slog.Logger
}

// Manager runs the operations.
type Manager struct {
	cfg Config

	mu    sync.Mutex
	turns map[string]*turn
	wg    sync.WaitGroup // operations under way
}

// turn is the lock of one sandbox, for as long as somebody wants it.
type turn struct {
	sync.Mutex
	waiting int
}

// New returns a Manager.
func New(cfg Config) *Manager { return &Manager{cfg: cfg, turns: make(map[string]*turn)} }

// Wait returns when no operation is under way.
func (m *Manager) Wait() { m.wg.Wait() }

// Encode makes the response that is stored for replay.
type Encode func(store.Sandbox) ([]byte, error)

func (m *Manager) driver(name string) (runtime.Driver, error) {
	d, ok := m.cfg.Drivers[name]
	if !ok {
		return nil, fmt.Errorf("%w %q", ErrUnknownDriver, name)
	}
	return d, nil
}

// TokenFile tells where the sandbox's token is on the gateway's host.
func (m *Manager) TokenFile(s store.Sandbox) string {
	d, err := m.driver(s.Driver)
	if err != nil {
		return ""
	}
	return d.TokenFile(s.ID)
}

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

// detached runs one operation on a sandbox, in its turn. It goes on when ctx
// ends; then the error is ctx's.
func detached[T any](ctx context.Context, m *Manager, sandboxID string, op func(context.Context) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	m.wg.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), opTimeout)
		defer cancel()
		defer m.lock(sandboxID)()
		v, err := op(ctx)
		done <- result{v, err}
	})
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}

// lock waits for the sandbox's turn and returns its end.
func (m *Manager) lock(sandboxID string) (unlock func()) {
	m.mu.Lock()
	t := m.turns[sandboxID]
	if t == nil {
		t = &turn{}
		m.turns[sandboxID] = t
	}
	t.waiting++
	m.mu.Unlock()
	t.Lock()
	return func() {
		t.Unlock()
		m.mu.Lock()
		defer m.mu.Unlock()
		if t.waiting--; t.waiting == 0 {
			delete(m.turns, sandboxID)
		}
	}
}

// errNotStored rolls the look-up of a request id back.
var errNotStored = errors.New("not stored")

// lookup returns the stored response of a request, if there is one.
func (m *Manager) lookup(ctx context.Context, req store.Request) (response []byte, replayed bool, err error) {
	if req.ID == "" {
		return nil, false, nil
	}
	response, replayed, err = m.cfg.Store.Mutate(ctx, req, func(store.Tx) ([]byte, error) { return nil, errNotStored })
	if errors.Is(err, errNotStored) {
		err = nil
	}
	return response, replayed, err
}

// setLifecycle stores what is asked of a sandbox now.
func (m *Manager) setLifecycle(ctx context.Context, id string, l store.Lifecycle) error {
	_, _, err := m.cfg.Store.Mutate(ctx, store.Request{}, func(tx store.Tx) ([]byte, error) {
		s, err := tx.SandboxByID(id)
		if err != nil {
			return nil, err
		}
		s.Lifecycle = l
		_, err = tx.UpdateSandbox(s)
		return nil, err
	})
	return err
}
