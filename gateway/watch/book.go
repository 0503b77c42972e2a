// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"slices"
	"time"

	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

// record is what is stored of a sandbox. It is never changed once it is made.
type record struct {
	id, workspace, name string
	labels              map[string]string
	lifecycle           health.Lifecycle
	exitCode            *int32
	services            []store.Service // sorted by name
}

// endpoint is what health.Evaluate needs of one of the services.
func (r *record) endpoint(svc *store.Service) health.Endpoint {
	return health.Endpoint{ID: svc.ID, Revision: svc.Revision, Generation: r.lifecycle.Generation}
}

// sight is what is seen of a sandbox at once.
type sight struct {
	record *record // nil: there is no such sandbox
	slot   health.Slot
}

// lost is when the sandbox's session was lost; zero if it was not.
func (s sight) lost() time.Time {
	if s.record == nil {
		return time.Time{}
	}
	return s.slot.Of(s.record.lifecycle.Generation).Lost
}

// book holds the latest answers about the services of some sandboxes. It is
// pure, and for one goroutine at a time.
type book struct {
	started time.Time                 // when the gateway began to accept sessions
	wants   func(service string) bool // by name; nil: all
	pages   map[string]page           // by sandbox id; only of those with services
	expire  deadlines                 // of pages
	size    int                       // services on all pages
	numbers uint32                    // handed out
	scratch []entry                   // of the look under way
}

// page is the part of the book about one sandbox.
type page struct {
	phase   health.Phase
	entries []entry // sorted by name
}

// entry is the part of a page about one service.
type entry struct {
	id, name string
	version  uint64 // of the endpoint
	verdict  verdict
	number   uint32 // never 0, never used again
}

// change is news of one service.
type change struct {
	entry
	before  verdict
	gone    bool // then what follows is empty
	service store.Service
	answer  health.Answer
	phase   health.Phase
}

func newBook(started time.Time, wants func(string) bool) *book {
	return &book{started: started, wants: wants, pages: make(map[string]page)}
}

// look takes in what is seen of a sandbox at now and returns what is new: a
// service that was not there or is gone, another verdict, endpoint or phase.
// What is gone comes before what is new under the same name.
func (b *book) look(id string, s sight, now time.Time) []change {
	old := b.pages[id]
	next := page{entries: b.scratch[:0]}
	var news []change
	var expires time.Time
	gone := func(e entry) { news = append(news, change{entry: e, before: e.verdict, gone: true}) }
	i := 0
	if s.record != nil {
		next.phase = health.PhaseOf(s.record.lifecycle, s.slot, b.started, now)
		for j := range s.record.services {
			svc := &s.record.services[j]
			if b.wants != nil && !b.wants(svc.Name) {
				continue
			}
			for i < len(old.entries) && (old.entries[i].name < svc.Name || old.entries[i].name == svc.Name && old.entries[i].id != svc.ID) {
				gone(old.entries[i])
				i++
			}
			a := health.Evaluate(s.record.endpoint(svc), next.phase, s.slot, now)
			expires = earlier(expires, a.Expires(), now)
			e := entry{id: svc.ID, name: svc.Name, version: svc.ResourceVersion, verdict: verdictOf(a)}
			var before verdict
			if i < len(old.entries) && old.entries[i].id == svc.ID {
				before, e.number = old.entries[i].verdict, old.entries[i].number
				if e == old.entries[i] && next.phase == old.phase {
					next.entries = append(next.entries, e)
					i++
					continue
				}
				i++
			} else {
				b.numbers++
				e.number = b.numbers
			}
			next.entries = append(next.entries, e)
			news = append(news, change{entry: e, before: before, service: *svc, answer: a, phase: next.phase})
		}
	}
	for ; i < len(old.entries); i++ {
		gone(old.entries[i])
	}
	b.scratch = next.entries
	b.size += len(next.entries) - len(old.entries)
	switch {
	case len(next.entries) == 0:
		delete(b.pages, id)
		b.expire.set(id, time.Time{})
		return news
	case len(news) > 0: // most looks find nothing new
		next.entries = slices.Clone(next.entries)
		b.pages[id] = next
	}
	b.expire.set(id, earlier(expires, health.PhaseExpires(s.record.lifecycle, s.slot, b.started, now), now))
	return news
}

// earlier returns the earlier of two instants that are after now; zero if
// there is none.
func earlier(a, b, now time.Time) time.Time {
	if b.After(now) && (a.IsZero() || b.Before(a)) {
		return b
	}
	return a
}

// expires returns when age alone will change an answer about a sandbox; zero
// if it will not.
func (b *book) expires(id string) time.Time { return b.expire.at(id) }

// next returns when to look at what due returns; zero if that is not needed.
func (b *book) next() time.Time { return b.expire.first() }

// due returns the sandboxes that have to be looked at because of their age.
// They are due until they are looked at.
func (b *book) due(now time.Time) []string { return b.expire.due(now) }
