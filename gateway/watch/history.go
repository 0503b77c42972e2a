// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"time"

	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
)

const (
	// MaxTransitions is how many transitions of a service are kept.
	MaxTransitions = 64
	// maxKept is how many are kept of all services together. Beyond it a
	// service's history no longer grows: a new transition replaces its oldest.
	maxKept = 1 << 20
)

// transition is one change of a verdict.
type transition struct {
	at       time.Duration // since the history began
	from, to verdict
	code     uint16
	phase    health.Phase
	cause    sandboxv1.TransitionCause
}

// ring holds the latest transitions of one service.
type ring struct {
	since   time.Duration // when the first was recorded
	dropped uint64
	first   int // the oldest in list, once it is full
	list    []transition
}

// history holds the rings of all services. It is pure, and for one goroutine
// at a time.
type history struct {
	began time.Time
	rings map[string]*ring // by service id
	kept  int
	limit int // of kept
}

func newHistory(began time.Time) *history {
	return &history{began: began, rings: make(map[string]*ring), limit: maxKept}
}

// take records what is new of a sandbox at now. lost is when its session was
// lost; loading says that the records are being read for the first time.
func (h *history) take(news []change, lost time.Time, loading bool, now time.Time) {
	for _, c := range news {
		if c.gone {
			h.forget(c.id)
			continue
		}
		if c.before == c.verdict {
			continue
		}
		t := transition{
			at: whenOf(c.answer, lost, now).Sub(h.began), from: c.before, to: c.verdict, phase: c.phase,
			cause: causeOf(c.before, c.verdict, loading),
		}
		if o := c.answer.Observation; o != nil {
			t.code = o.Code
		}
		h.add(c.id, t, now.Sub(h.began))
	}
}

func (h *history) add(id string, t transition, now time.Duration) {
	r := h.rings[id]
	if r == nil {
		r = &ring{since: now}
		t.at = now // nothing is known of what was before
		h.rings[id] = r
	}
	if n := len(r.list); n > 0 {
		t.at = max(t.at, r.newest().at)
	}
	if len(r.list) < MaxTransitions && (len(r.list) == 0 || h.kept < h.limit) {
		r.grow(t)
		h.kept++
		return
	}
	r.list[r.first] = t
	r.first = (r.first + 1) % len(r.list)
	r.dropped++
}

func (h *history) forget(id string) {
	if r := h.rings[id]; r != nil {
		h.kept -= len(r.list)
		delete(h.rings, id)
	}
}

// read returns a copy of a service's ring, the oldest transition first.
func (h *history) read(id string) ring {
	r := h.rings[id]
	if r == nil {
		return ring{}
	}
	return ring{since: r.since, dropped: r.dropped, list: r.ordered()}
}

func (r *ring) newest() *transition {
	return &r.list[(r.first+len(r.list)-1)%len(r.list)]
}

func (r *ring) ordered() []transition {
	return append(append(make([]transition, 0, len(r.list)), r.list[r.first:]...), r.list[:r.first]...)
}

// grow adds one to a ring, which may have gone round below its full size.
func (r *ring) grow(t transition) {
	if r.first != 0 {
		r.list, r.first = r.ordered(), 0
	}
	r.list = append(r.list, t)
}
