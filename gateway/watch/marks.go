// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import "sync"

// marks is a set of sandboxes to look at again. Whoever puts never waits; one
// goroutine waits on wake and takes the whole set.
type marks struct {
	wake chan struct{} // size 1

	mu    sync.Mutex
	ids   map[string]struct{}
	count uint64 // of puts
}

func newMarks() *marks { return &marks{wake: make(chan struct{}, 1)} }

func (m *marks) put(ids ...string) {
	m.mu.Lock()
	m.count++
	if m.ids == nil {
		m.ids = make(map[string]struct{})
	}
	for _, id := range ids {
		m.ids[id] = struct{}{}
	}
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// take empties the set; count is that of the puts that are in it.
func (m *marks) take() (ids []string, count uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids = make([]string, 0, len(m.ids))
	for id := range m.ids {
		ids = append(ids, id)
	}
	m.ids = nil
	return ids, m.count
}

func (m *marks) puts() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count
}
