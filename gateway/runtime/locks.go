// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"sync"
)

// locks makes the calls for one sandbox take turns.
type locks struct {
	mu   sync.Mutex
	held map[string]*turn
}

type turn struct {
	token chan struct{} // holds one value while the lock is held
	users int           // holders and waiters; at 0 the entry goes
}

// lock waits for the turn of id, or for the end of ctx, and returns what ends
// the turn.
func (l *locks) lock(ctx context.Context, id string) (unlock func(), err error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = make(map[string]*turn)
	}
	t := l.held[id]
	if t == nil {
		t = &turn{token: make(chan struct{}, 1)}
		l.held[id] = t
	}
	t.users++
	l.mu.Unlock()

	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(l.held, id)
		}
	}
	select {
	case t.token <- struct{}{}:
		return func() { <-t.token; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
