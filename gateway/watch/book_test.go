// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// random makes sights of one sandbox that follow each other.
type random struct {
	*rand.Rand
	cache    *health.Cache
	record   *record
	session  uint64
	version  uint64
	reported uint64
}

func newRandom(seed uint64) *random {
	return &random{Rand: rand.New(rand.NewPCG(seed, 1)), cache: health.NewCache()}
}

const randomID = "id"

// step changes something, or nothing, at now.
func (r *random) step(now time.Time) sight {
	switch r.IntN(9) {
	case 0:
		r.session++
		r.cache.Connected(randomID, r.session, 1, fmt.Sprint("instance-", r.IntN(2)))
	case 1:
		r.cache.Disconnected(randomID, r.session, now)
	case 2:
		r.record = nil
	case 3, 4:
		r.store()
	default:
		r.report(now)
	}
	return sight{record: r.record, slot: r.cache.Slot(randomID)}
}

// store makes another record.
func (r *random) store() {
	next := record{id: randomID, workspace: "default", name: "web", lifecycle: health.Lifecycle{Generation: 1, Asked: health.Ready, Connected: true}}
	if r.IntN(4) == 0 {
		next.lifecycle.Asked = health.Phase(1 + r.IntN(8))
	}
	for _, name := range []string{"", "a", "b"} {
		if r.IntN(3) == 0 {
			continue
		}
		r.version++
		svc := store.Service{ID: fmt.Sprint(name, "-", r.IntN(2)), Name: name, ResourceVersion: r.version, Revision: uint64(1 + r.IntN(2))}
		next.services = append(next.services, svc)
	}
	r.record = &next
}

func (r *random) report(now time.Time) {
	if r.record == nil {
		return
	}
	slot := r.cache.Slot(randomID)
	var obs []health.Observation
	desired := make(map[string]bool)
	for _, svc := range r.record.services {
		desired[svc.ID] = true
		at := now.Add(-time.Duration(r.IntN(20_000)) * time.Millisecond)
		o := health.Observation{
			ServiceID: svc.ID, Instance: slot.Instance, Revision: svc.Revision, State: probe.State(r.IntN(3)),
			Outcome: probe.Outcome(r.IntN(4)), Reason: probe.Reason(r.IntN(3)), Latest: at, Conclusive: at,
		}
		if r.IntN(4) == 0 {
			o.Conclusive = time.Time{}
		}
		obs = append(obs, o)
	}
	r.reported++
	r.cache.Reported(randomID, r.session, r.reported, obs, desired)
}

// judged is what health.Evaluate says of every service in a sight, directly.
func judged(s sight, wants func(string) bool, now time.Time) map[string]string {
	out := make(map[string]string)
	if s.record == nil {
		return out
	}
	phase := health.PhaseOf(s.record.lifecycle, s.slot, noon, now)
	for _, svc := range s.record.services {
		if wants == nil || wants(svc.Name) {
			v := verdictOf(health.Evaluate(s.record.endpoint(&svc), phase, s.slot, now))
			out[svc.ID] = fmt.Sprintf("%d %v %d", svc.ResourceVersion, v, phase)
		}
	}
	return out
}

// Whoever applies the news of a book holds what Evaluate says, at every look;
// the news are no more than that; and between a look and the instant that the
// book gives nothing changes by itself.
func TestBookAgainstEvaluate(t *testing.T) {
	for seed := range uint64(6) {
		r := newRandom(seed)
		var wants func(string) bool
		if seed%3 == 0 {
			wants = func(name string) bool { return name == "a" }
		}
		b := newBook(noon, wants)
		held, numbers := map[string]string{}, map[uint32]string{}
		now := noon
		for range 100 {
			now = now.Add(time.Duration(r.IntN(9_000)) * time.Millisecond)
			s := r.step(now)
			for _, c := range b.look(randomID, s, now) {
				if c.gone {
					if _, ok := held[c.id]; !ok || numbers[c.number] != c.id {
						t.Fatalf("seed %d: %s (%d) is gone and was not there", seed, c.id, c.number)
					}
					delete(held, c.id)
					continue
				}
				says := fmt.Sprintf("%d %v %d", c.version, c.verdict, c.phase)
				if held[c.id] == says {
					t.Fatalf("seed %d: %s is no news: %s", seed, c.id, says)
				}
				if id, used := numbers[c.number]; c.number == 0 || used && id != c.id || c.service.ID != c.id {
					t.Fatalf("seed %d: number %d of %s was that of %q", seed, c.number, c.id, id)
				}
				held[c.id], numbers[c.number] = says, c.id
			}
			if want := judged(s, wants, now); !maps.Equal(held, want) {
				t.Fatalf("seed %d: held %v, want %v", seed, held, want)
			}
			if b.size != len(held) {
				t.Fatalf("seed %d: size %d, want %d", seed, b.size, len(held))
			}
			steadyUntil(t, b, s, wants, now)
		}
	}
}

// steadyUntil looks every 100 ms ahead: the answers stay what they are until
// the instant that the book gives, and change at it.
func steadyUntil(t *testing.T, b *book, s sight, wants func(string) bool, now time.Time) {
	t.Helper()
	before := judged(s, wants, now)
	next := b.next()
	if next != b.expires(randomID) || !next.IsZero() && !next.After(now) {
		t.Fatalf("the next instant is %v at %v", next, now)
	}
	for ahead := time.Duration(0); ahead < 40*time.Second; ahead += 100 * time.Millisecond {
		at := now.Add(ahead)
		if !next.IsZero() && !at.Before(next) {
			break
		}
		if got := judged(s, wants, at); !maps.Equal(got, before) {
			t.Fatalf("%v ahead, with %v given: %v, was %v", ahead, next.Sub(now), got, before)
		}
	}
	if !next.IsZero() && maps.Equal(judged(s, wants, next), before) {
		t.Fatalf("nothing changes at the instant given, %v ahead: %v", next.Sub(now), before)
	}
}

// Deadlines against a map.
func TestDeadlines(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var d deadlines
	model := map[string]time.Time{}
	for range 5000 {
		id := fmt.Sprint(r.IntN(20))
		at := noon.Add(time.Duration(r.IntN(1000)) * time.Second)
		switch r.IntN(4) {
		case 0:
			at = time.Time{}
			delete(model, id)
			d.set(id, at)
		case 1:
			var want []string
			for id, due := range model {
				if !due.After(at) {
					want = append(want, id)
				}
			}
			got := d.due(at)
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Fatalf("due are %v, want %v", got, want)
			}
		default:
			model[id] = at
			d.set(id, at)
		}
		first := time.Time{}
		for id, at := range model {
			if d.at(id) != at {
				t.Fatalf("%s is due at %v, want %v", id, d.at(id), at)
			}
			if first.IsZero() || at.Before(first) {
				first = at
			}
		}
		if d.first() != first || len(d.heap.list) != len(model) || len(d.heap.index) != len(model) {
			t.Fatalf("first %v of %d, want %v of %d", d.first(), len(d.heap.list), first, len(model))
		}
	}
}

func BenchmarkLook(b *testing.B) {
	for _, size := range []int{1, 20} {
		b.Run(fmt.Sprint(size, " services"), func(b *testing.B) {
			now := time.Now()
			rec := &record{id: randomID, lifecycle: health.Lifecycle{Generation: 1, Asked: health.Ready}}
			cache := health.NewCache()
			cache.Connected(randomID, 1, 1, "a")
			var obs []health.Observation
			desired := map[string]bool{}
			for i := range size {
				svc := store.Service{ID: fmt.Sprintf("id-%03d", i), Name: fmt.Sprintf("s-%03d", i), Revision: 1}
				rec.services = append(rec.services, svc)
				desired[svc.ID] = true
				obs = append(obs, health.Observation{ServiceID: svc.ID, Instance: "a", Revision: 1, State: probe.Healthy, Reason: probe.OK, Latest: now, Conclusive: now})
			}
			cache.Reported(randomID, 1, 1, obs, desired)
			seen := sight{record: rec, slot: cache.Slot(randomID)}
			book := newBook(now, nil)
			book.look(randomID, seen, now)
			b.ReportAllocs()
			for b.Loop() {
				if news := book.look(randomID, seen, now); len(news) != 0 {
					b.Fatal(news)
				}
			}
		})
	}
}
