// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package latest

import "sync"

// Cell carries the newest value from any number of writers to one reader.
// The zero Cell is not usable; call New.
type Cell[T any] struct {
	mu    sync.Mutex
	value T
	full  bool
	ready chan struct{}
}

// New returns an empty cell.
func New[T any]() *Cell[T] {
	return &Cell[T]{ready: make(chan struct{}, 1)}
}

// Put replaces whatever the reader has not taken yet.
func (c *Cell[T]) Put(v T) {
	c.mu.Lock()
	c.value, c.full = v, true
	c.mu.Unlock()
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// Ready is signalled once after one or more Puts. Take may still find the cell
// empty, if it was called in between.
func (c *Cell[T]) Ready() <-chan struct{} { return c.ready }

// Take empties the cell. It reports false if nothing was put since the last
// Take.
func (c *Cell[T]) Take() (T, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.value, c.full
	var zero T
	c.value, c.full = zero, false
	return v, ok
}
