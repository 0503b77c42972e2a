// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"sync"
	"time"

	"github.com/sandbox-agent/sandbox-agent/probe"
)

// Cache holds the slot of each sandbox.
type Cache struct {
	changed func(sandboxID string)

	mu    sync.RWMutex
	slots map[string]Slot
}

// NewCache returns an empty cache.
func NewCache() *Cache {
	return &Cache{slots: make(map[string]Slot), changed: func(string) {}}
}

// OnChange makes the cache call f after each change of a sandbox's slot, once a
// reader can see the change. f runs in whoever made the change and must not
// wait. Call OnChange before anything else.
func (c *Cache) OnChange(f func(sandboxID string)) { c.changed = f }

// set stores what f makes of a sandbox's slot, unless it keeps it.
func (c *Cache) set(sandboxID string, f func(slot Slot, known bool) (Slot, bool)) bool {
	if !c.swap(sandboxID, f) {
		return false
	}
	c.changed(sandboxID)
	return true
}

func (c *Cache) swap(sandboxID string, f func(slot Slot, known bool) (Slot, bool)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	slot, known := c.slots[sandboxID]
	slot, change := f(slot, known)
	if change {
		c.slots[sandboxID] = slot
	}
	return change
}

// Slot returns what is known of a sandbox; the zero Slot if nothing is.
func (c *Cache) Slot(sandboxID string) Slot {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.slots[sandboxID]
}

// Connected makes a session the owner of a sandbox's slot, unless one of a
// later generation of the sandbox has owned it.
func (c *Cache) Connected(sandboxID string, session, generation uint64, instance string) {
	c.set(sandboxID, func(slot Slot, _ bool) (Slot, bool) { return slot.connected(session, generation, instance), true })
}

// Disconnected takes note that a session has ended at the instant now. It has
// no effect unless that session owns the slot.
func (c *Cache) Disconnected(sandboxID string, session uint64, now time.Time) {
	c.set(sandboxID, func(slot Slot, known bool) (Slot, bool) { return slot.disconnected(session, now), known })
}

// Reported stores a report. desired holds the ids of all services that the
// sandbox has now. Reported returns false, and stores nothing, if the session
// does not own the slot or the generation is older than the stored one.
func (c *Cache) Reported(sandboxID string, session, generation uint64, obs []Observation, desired map[string]bool) bool {
	return c.set(sandboxID, func(slot Slot, known bool) (Slot, bool) {
		if !known || slot.Session != session || !slot.Live || generation < slot.Generation {
			return slot, false
		}
		return slot.reported(generation, obs, desired), true
	})
}

// Forget drops a sandbox: it was deleted, or began a new generation.
func (c *Cache) Forget(sandboxID string) {
	c.mu.Lock()
	delete(c.slots, sandboxID)
	c.mu.Unlock()
	c.changed(sandboxID)
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

// Verdicts counts the services that have a verdict at the instant now: a live
// session, and a fresh observation by its agent.
func (c *Cache) Verdicts(now time.Time) (healthy, unhealthy int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, s := range c.slots {
		if !s.Live {
			continue
		}
		for i := range s.observed {
			o := &s.observed[i]
			switch {
			case o.Instance != s.Instance || now.Sub(o.freshness()) >= probe.StaleAfter:
			case o.State == probe.Healthy:
				healthy++
			case o.State == probe.Unhealthy:
				unhealthy++
			}
		}
	}
	return healthy, unhealthy
}
