// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
)

// turn is the lock of one sandbox or request id, for as long as somebody wants
// it.
type turn struct {
	held    chan struct{} // size 1
	waiting int           // with the holder; guarded by Manager.mu
}

// lock waits for a turn and returns its end.
func (m *Manager) lock(ctx context.Context, key string) (unlock func(), err error) {
	m.mu.Lock()
	t := m.turns[key]
	if t == nil {
		t = &turn{held: make(chan struct{}, 1)}
		m.turns[key] = t
	}
	t.waiting++
	m.mu.Unlock()
	select {
	case t.held <- struct{}{}:
		return func() { <-t.held; m.leave(key, t) }, nil
	case <-ctx.Done():
		m.leave(key, t)
		return nil, fmt.Errorf("waiting for an operation on the sandbox: %w", ctx.Err())
	}
}

func (m *Manager) leave(key string, t *turn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.waiting--; t.waiting == 0 {
		delete(m.turns, key)
	}
}
