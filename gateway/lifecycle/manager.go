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

// Errors of a Manager's operations, beside those of the store and the driver.
var (
	// ErrUnknownDriver: no such driver is configured.
	ErrUnknownDriver = errors.New("unknown driver")
	// ErrDeleting: the sandbox is being deleted.
	ErrDeleting = errors.New("the sandbox is being deleted")
	// ErrNotAdmitted: Connected was told of a session of another generation, or
	// of a sandbox that was asked to stop or to go.
	ErrNotAdmitted = errors.New("the sandbox does not admit this session")
)

// OpTimeout bounds an operation that goes on after its caller has left.
const OpTimeout = time.Minute

// Config is what a Manager works with.
type Config struct {
	Store   *store.Store
	Drivers map[string]runtime.Driver
	// Issue makes a sandbox token.
	Issue func(sandboxID string, generation uint64) (secret.String, time.Time, error)
	// Disconnect ends the session of a sandbox.
	Disconnect func(sandboxID string)
	Cache      *health.Cache
	// Patience is for how long Recover leaves an operation that it did not begin
	// to whoever may be at it: another gateway with the same store. OpTimeout if
	// there may be one; 0: nobody else is.
	Patience time.Duration
	// Now supplies the instants that are stored; nil means time.Now.
	Now    func() time.Time
	Logger *slog.Logger
}

// Manager runs the operations.
type Manager struct {
	cfg Config
	wg  sync.WaitGroup // operations under way

	mu    sync.Mutex
	turns map[string]*turn
	ops   map[context.Context]context.CancelFunc // of the operations under way
	cut   bool                                   // operations end at once
}

// New returns a Manager.
func New(cfg Config) *Manager {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Manager{cfg: cfg, turns: make(map[string]*turn), ops: make(map[context.Context]context.CancelFunc)}
}

// Wait returns when no operation is under way. Once ctx ends, what is still
// under way is cut off and left to the next gateway's Recover. No operation may
// begin any more when it is called.
func (m *Manager) Wait(ctx context.Context) {
	defer context.AfterFunc(ctx, m.cutOff)()
	m.wg.Wait()
}

func (m *Manager) cutOff() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cut = true
	for _, cancel := range m.ops {
		cancel()
	}
}

// begin returns a context for work that goes on when the caller leaves, and
// its end.
func (m *Manager) begin(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), OpTimeout)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ops[ctx] = cancel
	if m.cut {
		cancel()
	}
	return ctx, func() {
		cancel()
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.ops, ctx)
	}
}

// reply is what an operation answers with.
type reply struct {
	response []byte
	replayed bool
	err      error
}

// operate runs one operation on a sandbox, in its turn and in that of its
// request id, unless that request was answered before. The operation goes on
// when ctx ends; then the error is ctx's.
func (m *Manager) operate(ctx context.Context, req store.Request, sandboxID string, op func(context.Context) ([]byte, bool, error)) ([]byte, bool, error) {
	done := make(chan reply, 1)
	m.wg.Go(func() {
		ctx, end := m.begin(ctx)
		defer end()
		var r reply
		r.response, r.replayed, r.err = m.inTurn(ctx, req, sandboxID, op)
		done <- r
	})
	select {
	case r := <-done:
		return r.response, r.replayed, r.err
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
}

func (m *Manager) inTurn(ctx context.Context, req store.Request, sandboxID string, op func(context.Context) ([]byte, bool, error)) ([]byte, bool, error) {
	if req.ID != "" {
		unlock, err := m.lock(ctx, "request "+req.ID)
		if err != nil {
			return nil, false, err
		}
		defer unlock()
		if response, replayed, err := m.Replay(ctx, req); replayed || err != nil {
			return response, replayed, err
		}
	}
	unlock, err := m.lock(ctx, sandboxID)
	if err != nil {
		return nil, false, err
	}
	defer unlock()
	return op(ctx)
}

// errNotStored rolls the look-up of a request id back.
var errNotStored = errors.New("not stored")

// Replay returns the stored response of a request, if there is one, or
// store.ErrRequestMismatch.
func (m *Manager) Replay(ctx context.Context, req store.Request) (response []byte, replayed bool, err error) {
	if req.ID == "" {
		return nil, false, nil
	}
	response, replayed, err = m.cfg.Store.Mutate(ctx, req, func(store.Tx) ([]byte, error) { return nil, errNotStored })
	if errors.Is(err, errNotStored) {
		err = nil
	}
	return response, replayed, err
}

func (m *Manager) driver(name string) (runtime.Driver, error) {
	d, ok := m.cfg.Drivers[name]
	if !ok {
		return nil, fmt.Errorf("%w %.64q", ErrUnknownDriver, name)
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
