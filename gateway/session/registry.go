// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package session

import "time"

// EvictionInterval is how often at most two agents with one identity may evict
// each other.
const EvictionInterval = time.Minute

// holder is the session that holds a sandbox.
type holder struct {
	session    uint64
	generation uint64
	instance   string
}

// Registry knows which session holds which sandbox. It is pure and not safe
// for concurrent use: the Server that owns it holds a lock.
type Registry struct {
	holders map[string]holder
	// evicted is when a holder last lost its sandbox to another instance. It
	// outlives the sessions: an agent that comes and goes must not evict another
	// one each time.
	evicted map[string]time.Time
	full    int // length of evicted at which to forget what is over
}

// NewRegistry returns a Registry without sessions.
func NewRegistry() *Registry {
	return &Registry{holders: make(map[string]holder), evicted: make(map[string]time.Time)}
}

// Decision is what becomes of a session that wants a sandbox.
type Decision struct {
	Accept bool
	// Displaced is the session that has to be closed; 0 if there is none.
	Displaced uint64
	// Conflict says that an agent of the same generation but of another instance
	// holds the sandbox.
	Conflict bool
	// Outdated says that an agent of a later generation holds the sandbox.
	Outdated bool
	// RetryAfter says when an agent that was refused for a conflict could be
	// accepted at the earliest.
	RetryAfter time.Duration
}

// Decide tells what Claim would do.
func (r *Registry) Decide(sandboxID string, generation uint64, instance string, now time.Time) Decision {
	h, held := r.holders[sandboxID]
	switch {
	case !held:
		return Decision{Accept: true}
	case generation < h.generation:
		return Decision{Outdated: true}
	case generation > h.generation || h.instance == instance:
		return Decision{Accept: true, Displaced: h.session}
	}
	if at, ok := r.evicted[sandboxID]; ok && now.Sub(at) < EvictionInterval {
		return Decision{Conflict: true, RetryAfter: EvictionInterval - now.Sub(at)}
	}
	return Decision{Accept: true, Displaced: h.session, Conflict: true}
}

// Claim gives the sandbox to a session, unless the decision is not to.
func (r *Registry) Claim(sandboxID string, session, generation uint64, instance string, now time.Time) Decision {
	d := r.Decide(sandboxID, generation, instance, now)
	if !d.Accept {
		return d
	}
	r.holders[sandboxID] = holder{session, generation, instance}
	if d.Conflict {
		r.evict(sandboxID, now)
	}
	return d
}

// evict takes note of an eviction and, now and then, forgets those that do not
// matter any more.
func (r *Registry) evict(sandboxID string, now time.Time) {
	r.evicted[sandboxID] = now
	if len(r.evicted) <= r.full {
		return
	}
	for id, at := range r.evicted {
		if now.Sub(at) >= EvictionInterval {
			delete(r.evicted, id)
		}
	}
	r.full = 2*len(r.evicted) + 64
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
