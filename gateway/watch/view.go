// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"time"

	"google.golang.org/protobuf/proto"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/api"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
)

// maxBatch bounds a message of a watch, about; half of it leaves a client's
// usual limit of 4 MiB far away.
const maxBatch = 256 << 10

// view is what one watch has told its client. It is pure, and for one
// goroutine.
type view struct {
	filter   filter
	urls     api.URLs
	book     *book
	sequence uint64
	complete bool

	// What the next message will hold.
	removed  []uint32
	services []*sandboxv1.WatchedService
	bytes    int
}

func newView(f filter, urls api.URLs, started time.Time) *view {
	return &view{filter: f, urls: urls, book: newBook(started, f.wants())}
}

// look takes in what is seen of a sandbox at now.
func (v *view) look(id string, s sight, now time.Time) {
	if !v.filter.sandboxes(s.record) {
		s.record = nil
	}
	for _, c := range v.book.look(id, s, now) {
		if c.gone {
			v.removed = append(v.removed, c.number)
			continue
		}
		w := &sandboxv1.WatchedService{
			Number: c.number, Service: v.urls.Service(c.service, c.answer, now), SandboxPhase: openshellv1.SandboxPhase(c.phase),
		}
		if c.answer.Observation != nil {
			w.AgeMs = proto.Uint32(millis(now.Sub(c.answer.Observation.Latest)))
		}
		v.services = append(v.services, w)
		v.bytes += proto.Size(w)
	}
}

// full reports whether the next message is large enough to be sent.
func (v *view) full() bool { return v.bytes >= maxBatch }

// empty reports whether the next message would say nothing.
func (v *view) empty() bool { return len(v.removed)+len(v.services) == 0 }

// message returns the next message and begins another one.
func (v *view) message() *sandboxv1.WatchServicesResponse {
	v.sequence++
	m := &sandboxv1.WatchServicesResponse{
		Sequence: v.sequence, Complete: v.complete, Removed: v.removed, Services: v.services,
	}
	v.removed, v.services, v.bytes = nil, nil, 0
	return m
}

// ages lists the ages of a sandbox's fresh observations at now.
func (v *view) ages(id string, s sight, now time.Time) []*sandboxv1.ServiceAge {
	p := v.book.pages[id]
	if s.record == nil {
		return nil
	}
	var list []*sandboxv1.ServiceAge
	i := 0
	for j := range s.record.services {
		svc := &s.record.services[j]
		for i < len(p.entries) && p.entries[i].name < svc.Name {
			i++
		}
		if i == len(p.entries) || p.entries[i].id != svc.ID {
			continue
		}
		a := health.Evaluate(s.record.endpoint(svc), p.phase, s.slot, now)
		if !a.Expires().After(now) {
			continue
		}
		list = append(list, &sandboxv1.ServiceAge{Number: p.entries[i].number, AgeMs: millis(now.Sub(a.Observation.Latest))})
	}
	return list
}

func millis(d time.Duration) uint32 { return uint32(max(d, 0) / time.Millisecond) }
