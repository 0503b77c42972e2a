// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package session

import "time"

// EvictionInterval is how often at most two agents with one identity may evict
// each other.
const EvictionInterval = time.Minute

// holder is the session that holds a sandbox.
type holder struct {
	session  uint64
	instance string
	evicted  time.Time // when this sandbox's holder last lost to another instance
}

// Registry knows which session holds which sandbox. It is pure and not safe
// for concurrent use: the Server that owns it holds a lock.
type Registry struct {
	holders map[string]holder
}

// NewRegistry returns a Registry without sessions.
func NewRegistry() *Registry { return &Registry{holders: make(map[string]holder)} }

// Decision is what becomes of a session that wants a sandbox.
type Decision struct {
	Accept bool
	// Displaced is the session that has to be closed; 0 if there is none.
	Displaced uint64
	// Conflict says that the sandbox was held by an agent of another instance.
	Conflict bool
	// RetryAfter says when a refused agent could be accepted at the earliest.
	RetryAfter time.Duration
}

// Decide tells what Claim would do.
func (r *Registry) Decide(sandboxID, instance string, now time.Time) Decision {
	h, held := r.holders[sandboxID]
	switch {
	case !held:
		return Decision{Accept: true}
	case h.instance == instance:
		return Decision{Accept: true, Displaced: h.session}
	}
	if left := EvictionInterval - now.Sub(h.evicted); !h.evicted.IsZero() && left > 0 {
		return Decision{Conflict: true, RetryAfter: left}
	}
	return Decision{Accept: true, Displaced: h.session, Conflict: true}
}

// Claim gives the sandbox to a session, unless the decision is not to.
func (r *Registry) Claim(sandboxID string, session uint64, instance string, now time.Time) Decision {
	d := r.Decide(sandboxID, instance, now)
	if !d.Accept {
		return d
	}
	h := holder{session: session, instance: instance, evicted: r.holders[sandboxID].evicted}
	if d.Conflict {
		h.evicted = now
	}
	r.holders[sandboxID] = h
	return d
}

// Release takes note that a session has ended. It reports whether that session
// held the sandbox; otherwise it changes nothing.
func (r *Registry) Release(sandboxID string, session uint64) bool {
	if h, held := r.holders[sandboxID]; !held || h.session != session {
		return false
	}
	delete(r.holders, sandboxID)
	return true
}

// Holder returns the session that holds a sandbox; 0 if none does.
func (r *Registry) Holder(sandboxID string) uint64 { return r.holders[sandboxID].session }

// Len returns how many sandboxes are held.
func (r *Registry) Len() int { return len(r.holders) }
