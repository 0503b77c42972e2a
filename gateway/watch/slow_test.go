// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

// Of 50 watches one is stopped: nobody else waits for it, nothing is kept for
// it, and once it goes on it is told the newest state alone.
func TestStoppedWatch(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t).run()
		for i := range 20 {
			w.healthy(fmt.Sprintf("web-%02d", i), "")
		}
		stopped := w.watch(all())
		stopped.news()
		goOn := stopped.stop()
		var others []*fakeStream
		for range 49 {
			others = append(others, w.watch(all()))
		}
		for _, f := range others {
			f.news()
		}
		for round := range 20 {
			state, reason, say := probe.Unhealthy, probe.Refused, "UNHEALTHY Refused"
			if round%2 == 1 {
				state, reason, say = probe.Healthy, probe.OK, "HEALTHY OK"
			}
			for i := range 20 {
				w.report(fmt.Sprintf("web-%02d", i), state, reason)
			}
			changed := time.Now()
			testkit.Advance(100 * time.Millisecond)
			for _, f := range others {
				news := f.news()
				if len(news) != 20 || !strings.HasSuffix(news[round%20], "/ "+say) {
					t.Fatalf("round %d: a watch was told %q", round, news)
				}
				if after := f.at[len(f.at)-1].Sub(changed); after > 100*time.Millisecond {
					t.Fatalf("round %d: told after %v", round, after)
				}
			}
		}
		if n := len(stopped.news()); n != 0 {
			t.Fatalf("%d news reached the stopped watch", n)
		}
		for c := range w.callers.wide {
			if n := len(c.marks.ids); n > 20 {
				t.Errorf("%d marks are kept for 20 sandboxes", n)
			}
		}
		w.drop("web-07")
		testkit.Wait()
		goOn()
		testkit.Wait()
		// The message that it was about to send when it was stopped, then the
		// newest.
		if n := len(stopped.messages) - 1; n != 2 {
			t.Errorf("a watch that goes on is sent %d messages: %q", n, stopped.news())
		}
		held, faults := stopped.holds()
		if len(held) != 19 || len(faults) != 0 {
			t.Errorf("it holds %d services, %q; faults %q", len(held), held, faults)
		}
		for _, s := range held {
			if s[len("web-00/ "):] != "HEALTHY OK" {
				t.Errorf("it holds %q", s)
			}
		}
	})
}

// What a watch of one sandbox costs while others change: nothing.
func TestWatchOfOneIsNotWoken(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t).run()
		w.healthy("web", "")
		w.healthy("other", "")
		one := w.watch(&sandboxv1.WatchServicesRequest{Sandbox: "web"})
		blue := w.watch(&sandboxv1.WatchServicesRequest{LabelSelector: "team=blue"})
		named := w.watch(&sandboxv1.WatchServicesRequest{Services: []string{"docs"}})
		w.report("other", probe.Unhealthy, probe.Refused)
		w.put("blue", func(s *store.Sandbox) { s.Labels = map[string]string{"team": "blue", "x": "y"} })
		w.expose("blue", "docs", "api")
		testkit.Wait()
		want(t, "the watch of one", one.news(), "web/ HEALTHY OK")
		want(t, "the watch of a label", blue.news(), "blue/docs UNKNOWN SupervisorDisconnected", "blue/api UNKNOWN SupervisorDisconnected")
		want(t, "the watch of a name", named.news(), "blue/docs UNKNOWN SupervisorDisconnected")
		w.put("blue", func(s *store.Sandbox) { s.Labels = nil })
		testkit.Wait()
		want(t, "once the label is gone", blue.news(), "1 gone", "2 gone")
		want(t, "which is nothing to the others", named.news())
	})
}

// Hours of change, with watches that come and go, leave nothing behind.
func TestMemoryIsFlat(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t).run()
		w.healthy("web", "")
		heap := func() uint64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		rounds := func(n int) {
			for i := range n {
				f := w.watch(all())
				w.report("web", probe.Unhealthy, probe.Refused)
				w.put(fmt.Sprintf("short-%d", i), nil)
				w.expose(fmt.Sprintf("short-%d", i), "", "docs")
				testkit.Wait()
				w.report("web", probe.Healthy, probe.OK)
				w.drop(fmt.Sprintf("short-%d", i))
				testkit.Wait()
				f.leave()
				<-f.result
			}
		}
		rounds(200) // the ring is full
		before := heap()
		rounds(1000)
		if after := heap(); after > before+1<<20 {
			t.Errorf("the heap has grown from %d to %d bytes", before, after)
		}
		if len(w.sights) != 1 || len(w.names) != 1 || len(w.history.rings) != 1 || len(w.book.pages) != 1 || w.book.size != 1 ||
			len(w.callers.wide)+len(w.callers.by) != 0 || w.Watches() != 0 || w.history.kept != MaxTransitions {
			t.Errorf("left: %d sights, %d names, %d rings, %d pages, %d transitions, %d watches",
				len(w.sights), len(w.names), len(w.history.rings), len(w.book.pages), w.history.kept, w.Watches())
		}
	})
}
