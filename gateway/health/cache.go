// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"sync"
	"time"
)

// Cache holds the slot of each sandbox.
type Cache struct {
	mu    sync.RWMutex
	slots map[string]Slot
}

// NewCache returns an empty cache.
func NewCache() *Cache { return &Cache{slots: make(map[string]Slot)} }

// Slot returns what is known of a sandbox; the zero Slot if nothing is.
func (c *Cache) Slot(sandboxID string) Slot {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.slots[sandboxID]
}

// Connected makes a session the owner of a sandbox's slot.
func (c *Cache) Connected(sandboxID string, session uint64, instance string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slots[sandboxID] = c.slots[sandboxID].connected(session, instance)
}

// Disconnected takes note that a session has ended at the instant now. It has
// no effect unless that session owns the slot.
func (c *Cache) Disconnected(sandboxID string, session uint64, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slot, ok := c.slots[sandboxID]; ok {
		c.slots[sandboxID] = slot.disconnected(session, now)
	}
}

// Reported stores a report. desired holds the ids of all services that the
// sandbox has now. Reported returns false, and stores nothing, if the session
// does not own the slot or the generation is older than the stored one.
func (c *Cache) Reported(sandboxID string, session, generation uint64, obs []Observation, desired map[string]bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	slot, ok := c.slots[sandboxID]
	if !ok || slot.Session != session || !slot.Live || generation < slot.Generation {
		return false
	}
	c.slots[sandboxID] = slot.reported(generation, obs, desired)
	return true
}

// Forget drops a sandbox: it was deleted, or began a new generation.
func (c *Cache) Forget(sandboxID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.slots, sandboxID)
}

// Counts are the numbers of what the cache holds.
type Counts struct{ Sandboxes, Live, Observations int }

// Counts counts.
func (c *Cache) Counts() Counts {
	c.mu.RLock()
	defer c.mu.RUnlock()
	n := Counts{Sandboxes: len(c.slots)}
	for _, s := range c.slots {
		if s.Live {
			n.Live++
		}
		n.Observations += len(s.observed)
	}
	return n
}
