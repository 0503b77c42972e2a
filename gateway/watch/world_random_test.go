// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

// Whatever happens, and however it interleaves: once it is quiet every watch
// holds what a read says.
func TestWatchesEndWithTheTruth(t *testing.T) {
	for seed := range uint64(8) {
		testkit.Bubble(t, func(t *testing.T) {
			w := newWorld(t).run()
			watches := map[*fakeStream]filter{}
			for _, r := range []*sandboxv1.WatchServicesRequest{
				all(), {Sandbox: "web-1"}, {LabelSelector: "team=blue"}, {Services: []string{"", "b"}},
			} {
				f, err := filterOf(r)
				if err != nil {
					t.Fatal(err)
				}
				watches[w.watch(r)] = f
			}
			for round := range 40 {
				var wg sync.WaitGroup
				for i := range 4 {
					wg.Go(func() { w.disturb(fmt.Sprintf("web-%d", i), rand.New(rand.NewPCG(seed, uint64(100*round+i)))) })
				}
				wg.Wait()
				testkit.Advance(time.Duration(round%7)*3*time.Second + 2*slack)
				for f, selects := range watches {
					held, faults := f.holds()
					if truth := w.truth(selects); !slices.Equal(held, truth) || len(faults) != 0 {
						t.Fatalf("seed %d, round %d: a watch holds %q, want %q; faults %q", seed, round, held, truth, faults)
					}
				}
			}
		})
	}
}

// disturb changes a sandbox several times.
func (w *world) disturb(name string, r *rand.Rand) {
	for range 6 {
		w.mu.Lock()
		_, exists := w.records["id-"+name]
		session := w.sessions["id-"+name]
		w.mu.Unlock()
		switch n := r.IntN(12); {
		case !exists || n == 0:
			w.put(name, func(s *store.Sandbox) { s.Labels = map[string]string{"team": []string{"blue", "red"}[r.IntN(2)]} })
		case n == 1:
			w.drop(name)
		case n == 2:
			w.put(name, func(s *store.Sandbox) {
				s.Lifecycle = []store.Lifecycle{store.Stopped, store.Running, store.Starting}[r.IntN(3)]
			})
		case n < 5:
			w.expose(name, []string{"", "a", "b"}[r.IntN(3)])
		case n == 5:
			w.unexpose(name, []string{"", "a", "b"}[r.IntN(3)])
		case n == 6:
			w.disconnect(name)
		case n == 7 || session == 0 || !w.cache.Slot("id-"+name).Live:
			w.connect(name, fmt.Sprint("instance-", r.IntN(2)))
		default:
			back := time.Duration(r.IntN(14)) * time.Second
			w.report(name, []probe.State{probe.Healthy, probe.Unhealthy}[r.IntN(2)], probe.OK, func(o *health.Observation) {
				o.Latest, o.Conclusive = o.Latest.Add(-back), o.Conclusive.Add(-back)
			})
		}
	}
}

// unlocked reads a world whose lock the caller holds.
type unlocked struct{ *world }

func (u unlocked) SandboxByID(_ context.Context, id string) (store.Sandbox, error) {
	return u.records[id], nil
}

func (u unlocked) ServicesOf(_ context.Context, id string) ([]store.Service, error) {
	return slices.Clone(u.services[id]), nil
}

// truth is what a read says of all services that a filter selects, in words.
func (w *world) truth(f filter) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := []string{}
	now := time.Now()
	for id, sb := range w.records {
		rec := &record{id: id, workspace: sb.Workspace, name: sb.Name, labels: sb.Labels}
		if !f.sandboxes(rec) {
			continue
		}
		rec, _ = (&Server{cfg: Config{Records: unlocked{w}}}).read(w.t.Context(), id)
		slot := w.cache.Slot(id)
		phase := health.PhaseOf(rec.lifecycle, slot, w.cfg.Started, now)
		for _, svc := range rec.services {
			if wants := f.wants(); wants == nil || wants(svc.Name) {
				a := health.Evaluate(rec.endpoint(&svc), phase, slot, now)
				list = append(list, words(&sandboxv1.WatchedService{Service: w.cfg.URLs.Service(svc, a, now)}))
			}
		}
	}
	slices.Sort(list)
	return list
}
