// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

func all() *sandboxv1.WatchServicesRequest { return &sandboxv1.WatchServicesRequest{} }

// What a watch sends of one service's life.
func TestLife(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t).run()
		f := w.watch(all())
		if f.messages[0].GetSequence() != 1 || !f.messages[0].GetComplete() {
			t.Fatalf("the first message of nothing is %v", f.messages[0])
		}
		for _, step := range []struct {
			name string
			do   func()
			want []string
		}{
			{"created", func() { w.put("web", func(s *store.Sandbox) { s.Connected = false }) }, nil},
			{"exposed", func() { w.expose("web", "") }, []string{"web/ UNKNOWN SandboxNotReady"}},
			{"connected", func() { w.connect("web", "a") }, []string{"web/ UNKNOWN NotObserved"}},
			{"the record says so too", func() { w.put("web", func(s *store.Sandbox) { s.Connected = true }) }, nil},
			{"tried", func() { w.report("web", probe.Unknown, probe.Refused) }, []string{"web/ UNKNOWN Refused"}},
			{"passed", func() { w.report("web", probe.Healthy, probe.OK) }, []string{"web/ HEALTHY OK"}},
			{"passed again", func() { w.report("web", probe.Healthy, probe.OK) }, nil},
			{"one failure", func() { w.report("web", probe.Healthy, probe.Timeout) }, []string{"web/ HEALTHY Timeout"}},
			{"three", func() { w.report("web", probe.Unhealthy, probe.Timeout) }, []string{"web/ UNHEALTHY Timeout"}},
			{"changed", func() { w.expose("web", "") }, []string{"web/ UNKNOWN ConfigurationChanged"}},
			{"passed", func() { w.report("web", probe.Healthy, probe.OK) }, []string{"web/ HEALTHY OK"}},
			{"agent gone", func() { w.disconnect("web") }, []string{"web/ UNKNOWN SupervisorDisconnected"}},
			{"the same agent again", func() { w.connect("web", "a") }, []string{"web/ HEALTHY OK"}},
			{"another agent", func() { w.connect("web", "b") }, []string{"web/ UNKNOWN RuntimeReplaced"}},
			{"another service", func() { w.expose("web", "docs") }, []string{"web/docs UNKNOWN NotObserved"}},
			{"exited", func() { w.put("web", func(s *store.Sandbox) { s.ExitCode = new(int32) }) }, []string{"web/ UNKNOWN SandboxNotReady", "web/docs UNKNOWN SandboxNotReady"}},
			{"stopped", func() { w.put("web", func(s *store.Sandbox) { s.Lifecycle = store.Stopped }) }, []string{"web/ UNKNOWN SandboxStopped", "web/docs UNKNOWN SandboxStopped"}},
			{"service deleted", func() { w.unexpose("web", "") }, []string{"1 gone"}},
			{"sandbox deleted", func() { w.drop("web") }, []string{"2 gone"}},
		} {
			step.do()
			testkit.Wait()
			want(t, step.name, f.news(), step.want...)
		}
		if held, faults := f.holds(); len(held)+len(faults) != 0 {
			t.Errorf("the client holds %q at the end; faults: %q", held, faults)
		}
		f.leave()
		if err := <-f.result; status.Code(err) != codes.Canceled {
			t.Errorf("the watch ended with %v", err)
		}
	})
}

// T08: ten minutes of a healthy service, whose attempts differ in all that is
// no answer, are one event; the client hears something every 5 s, and no age
// that it is told is above 6 s.
func TestQuietWhileTheAnswerIsTheSame(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t).run()
		w.healthy("web", "")
		f := w.watch(all())
		for i := range 120 {
			testkit.Advance(5 * time.Second)
			w.report("web", probe.Healthy, probe.OK, func(o *health.Observation) {
				o.Latency, o.Code = time.Duration(i)*time.Millisecond, uint16(200+i%2)
			})
		}
		testkit.Wait()
		want(t, "news", f.news(), "web/ HEALTHY OK")
		if len(f.messages) < 120 {
			t.Errorf("%d messages in ten minutes", len(f.messages))
		}
		for i, m := range f.messages[1:] {
			if gap := f.at[i+1].Sub(f.at[i]); gap > 5*time.Second {
				t.Errorf("message %d came %v after the one before", i+2, gap)
			}
			if len(m.GetAges()) != 1 || m.GetAges()[0].GetAgeMs() > 6000 {
				t.Errorf("message %d says %v", i+2, m)
			}
		}
	})
}

// T09: an open watch says UNKNOWN once, between 15.0 and 15.5 s after the last
// observation, also when nothing else of the server runs any more.
func TestWatchAges(t *testing.T) {
	for name, blocked := range map[string]bool{"running": false, "all else ended": true} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				w := newWorld(t).run()
				w.healthy("web", "")
				w.healthy("other", "")
				f := w.watch(&sandboxv1.WatchServicesRequest{Sandbox: "web"})
				testkit.Advance(3 * time.Second)
				w.report("web", probe.Healthy, probe.OK)
				last := time.Now()
				testkit.Wait()
				f.news()
				if blocked {
					w.end()
					testkit.Wait()
				}
				testkit.Advance(5 * time.Minute)
				want(t, "news", f.news(), "web/ UNKNOWN Stale")
				for i, m := range f.messages {
					if len(m.GetServices()) == 0 || i == 0 {
						continue
					}
					if after := f.at[i].Sub(last); after < 15*time.Second || after > 15500*time.Millisecond {
						t.Errorf("told %v after the last observation", after)
					}
				}
			})
		})
	}
}

// An answer that stays what it is, but rests on an older observation: the
// agent was replaced and has reported before anybody looked.
func TestOlderObservation(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t).run()
		w.healthy("web", "")
		f := w.watch(all())
		f.news()
		w.state.Lock()
		w.connect("web", "instance-2")
		w.report("web", probe.Healthy, probe.OK, func(o *health.Observation) {
			o.Latest, o.Conclusive = o.Latest.Add(-13*time.Second), o.Conclusive.Add(-13*time.Second)
		})
		w.state.Unlock()
		testkit.Advance(time.Second)
		want(t, "while it is fresh", f.news())
		w.end()
		testkit.Advance(time.Second + 2*slack) // before a heartbeat
		want(t, "at 15 s", f.news(), "web/ UNKNOWN Stale")
	})
}

// A session lost: at once UNKNOWN; 15 s later the phase changes too.
func TestPhaseAges(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t).run()
		w.healthy("web", "")
		f := w.watch(all())
		f.news()
		w.disconnect("web")
		testkit.Wait()
		want(t, "lost", f.news(), "web/ UNKNOWN SupervisorDisconnected")
		testkit.Advance(14900 * time.Millisecond)
		want(t, "within the grace", f.news())
		testkit.Advance(700 * time.Millisecond)
		want(t, "after it", f.news(), "web/ UNKNOWN SupervisorDisconnected")
	})
}

var errStore = errors.New("no store today")

// Before the records are read nothing is answered, rather than an empty list.
func TestStoreFails(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.setFail(errStore)
		w.run()
		f := w.watch(all())
		testkit.Advance(storePatience)
		if err := <-f.result; status.Code(err) != codes.Unavailable || len(f.messages) != 0 {
			t.Errorf("without a store: %v, after %d messages", err, len(f.messages))
		}
		f = w.watch(all())
		w.healthy("web", "")
		w.setFail(nil)
		testkit.Advance(storeBackoff.Max)
		want(t, "once it is back", f.news(), "web/ HEALTHY OK")
		// A failure later on delays records, and no health.
		w.setFail(errStore)
		w.expose("web", "docs")
		testkit.Wait()
		w.disconnect("web")
		testkit.Wait()
		want(t, "while it fails", f.news(), "web/ UNKNOWN SupervisorDisconnected")
		w.setFail(nil)
		testkit.Advance(storeBackoff.Max)
		want(t, "back again", f.news(), "web/docs UNKNOWN SupervisorDisconnected")
		if n := w.logs.Count("reading records for watches failed; trying again"); n != 2 {
			t.Errorf("%d warnings, want one for each failure", n)
		}
	})
}
