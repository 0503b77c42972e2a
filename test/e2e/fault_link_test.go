// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
	"github.com/sandbox-agent/sandbox-agent/test/e2e/faultkit"
	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

// linkedSite is a site whose agent reaches the gateway over a network link, and
// was not started.
func linkedSite(t *testing.T) (*site, *faultkit.Link) {
	t.Helper()
	ns := faultkit.NewNamespace(t)
	link := ns.Connect(t)
	s := &site{bed: newBed(t), ns: ns, lates: &latenesses{}}
	// The last of two equal flags counts.
	s.gateway = s.bed.gateway("--supervisor-listen", link.Outside+":0", "--tls-names", link.Outside)
	s.locate()
	s.route = s.at.Supervisor
	s.cli("sandbox", "create", box)
	return s, link
}

// proxiedSite is a site whose agent reaches the gateway through a proxy, which
// listens in the sandbox.
func proxiedSite(t *testing.T) (*site, *faultkit.Proxy) {
	t.Helper()
	s := newSite(t)
	l, err := s.ns.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, gateway, _ := strings.Cut(s.at.Supervisor, "://")
	p := faultkit.NewProxy(t, l, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", gateway)
	})
	s.route = "https://" + p.Addr()
	s.startAgent()
	s.untilConnected(true, 20*time.Second)
	return s, p
}

// byMetric tells from the gateway's metrics what the one service's health is.
func (s *site) byMetric() source {
	client := &http.Client{Transport: &http.Transport{}}
	s.t.Cleanup(client.CloseIdleConnections)
	return func(ctx context.Context, _ *sandbox.Client) (h sandbox.Health, version uint64, err error) {
		m, err := metrics(ctx, client, s.at.Ops)
		states := map[string]sandbox.HealthState{
			"healthy": sandbox.HealthHealthy, "unhealthy": sandbox.HealthUnhealthy, "unknown": sandbox.HealthUnknown,
		}
		for state, is := range states {
			if m["sandbox_gateway_services{state=\""+state+"\"}"] == 1 {
				h.State = is
			}
		}
		h.LastChecked = time.Now() // metrics tell no age
		return h, 0, err
	}
}

// T09: the link loses all packets, of one direction or of both. Get, list and
// metric turn UNKNOWN between 15.0 and 15.5 s after the last observation, an
// open watch says so once, and all are right again when the link is.
func TestT09LinkDown(t *testing.T) {
	t.Parallel()
	for _, d := range []faultkit.Direction{faultkit.Out, faultkit.In, faultkit.Both} {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			s, link := linkedSite(t)
			s.startAgent()
			x := s.target(answer(200))
			s.exposeAll(s.client(), "", x)
			name := serviceOf(x)
			watches := []*watch{
				s.watch(name, good(x)...), s.watchBy("list", listServices(name), good(x)...), s.watchBy("metric", s.byMetric(), neverUnhealthy),
			}
			open := s.follow(name)
			for _, w := range watches {
				w.untilState(15*time.Second, time.Time{}, sandbox.HealthHealthy)
			}
			s.during(time.Until(x.untilAsked(2 * interval).Add(interval / 2)))
			down := time.Now()
			link.Drop(t, d)
			for _, w := range watches {
				w.untilState(40*time.Second, down, sandbox.HealthUnknown)
			}
			observed := s.unknownInTime(watches, down, d == faultkit.In)
			// What the gateway says of the observation is true, too: it may take it to
			// be older by the time that an acknowledgement was under way.
			truly := x.answeredBefore(observed.Add(interval / 2))
			t.Logf("the gateway dates the last observation %.3f s back from the target's answer", truly.Sub(observed).Seconds())
			if off := truly.Sub(observed); off < -time.Second || off > interval/10 {
				t.Errorf("the gateway dates an observation %v back from the target's answer", off)
			}
			s.during(interval) // in which the watch might say more
			back := time.Now()
			if lost := link.Restore(t); lost == 0 {
				t.Error("no packet was lost")
			}
			first, times, others := open.turned(sandbox.HealthUnknown, down, back)
			t.Logf("the watch said UNKNOWN %.3f s after the last observation", first.at.Sub(observed).Seconds())
			if late := first.at.Sub(observed) - 3*interval; times != 1 || len(others) > 0 || d != faultkit.In && late < 0 || late > interval/10+watches[0].gap(down) {
				t.Errorf("the watch said UNKNOWN %d times, first %v after the last observation, and besides %v", times, first.at.Sub(observed), others)
			}
			for _, w := range watches {
				// The backoff is at most 15 s, a dial under way at most 10 s.
				_, now := w.untilState(40*time.Second, back, sandbox.HealthHealthy)
				t.Logf("%s: HEALTHY %.1f s after the link was", w.name, now.to.Sub(back).Seconds())
			}
		})
	}
}

// unknownInTime checks when answers turned UNKNOWN: 15.0 to 15.5 s after the
// last observation, which it returns. Where the agent's packets arrive, the end
// of the connection may be among them, and is told at once.
func (s *site) unknownInTime(watches []*watch, down time.Time, mayEnd bool) (observed time.Time) {
	s.t.Helper()
	for _, r := range watches[0].since(down) {
		if r.health.State == sandbox.HealthHealthy {
			observed = r.health.LastChecked
		}
	}
	low := 3 * interval
	if _, now := watches[0].untilState(time.Second, down, sandbox.HealthUnknown); mayEnd && now.health.Reason == "SupervisorDisconnected" {
		low = 0
	}
	for _, w := range watches {
		before, now := w.untilState(time.Second, down, sandbox.HealthUnknown)
		within(s.t, w.name+": UNKNOWN "+now.health.Reason, observed, before, now, low, 3*interval+interval/10, 0)
	}
	return observed
}

// T11: what a broken link lost is said again: after a reset in the middle of a
// session, while new sessions are refused for a while, and after both ends
// believed for long that they were connected.
func TestT11LinkHeals(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(s *site, p *faultkit.Proxy){
		"reset": func(_ *site, p *faultkit.Proxy) { p.Cut() },
		"refused": func(s *site, p *faultkit.Proxy) {
			p.Refuse(true)
			p.Cut()
			s.during(5 * time.Second)
			p.Refuse(false)
		},
		"half open": func(s *site, p *faultkit.Proxy) {
			p.Hold(faultkit.Both)
			s.during(25 * time.Second)
			p.Release(faultkit.Both)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := proxiedSite(t)
			client := s.client()
			x, bad := s.target(answer(200)), s.target(answer(500))
			s.exposeAll(client, "/ready", x, bad)
			w, other := s.watch(serviceOf(x), good(x)...), s.watch(serviceOf(bad), neverHealthy)
			w.untilState(15*time.Second, time.Time{}, sandbox.HealthHealthy)
			other.untilState(25*time.Second, time.Time{}, sandbox.HealthUnhealthy)
			dialled := p.Dialled()
			fault(s, p)
			back := time.Now()
			w.until(40*time.Second, back, "an answer from after", func(r reading) bool {
				return r.health.State == sandbox.HealthHealthy && r.health.LastChecked.After(back)
			})
			_, now := other.untilState(40*time.Second, back, sandbox.HealthUnhealthy)
			t.Logf("right again %.1f s after the link was", now.to.Sub(back).Seconds())
			if p.Dialled() == dialled {
				t.Error("the session has survived: there was no fault")
			}
		})
	}
}

// D3: a report that the link holds back is as old as it is. The agent stops
// right after it has sent one, so that nothing newer comes; the report arrives
// later, in a session that is still alive or is not any more.
func TestD3HeldBack(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]time.Duration{"8 s": 8 * time.Second, "20 s": 20 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := proxiedSite(t)
			x := s.target(answer(200))
			s.exposeAll(s.client(), "", x)
			w := s.watch(serviceOf(x), good(x)...)
			w.untilState(15*time.Second, time.Time{}, sandbox.HealthHealthy)
			x.untilAsked(2 * interval)
			s.during(interval / 2)
			p.Hold(faultkit.Out)
			asked := x.untilAsked(2 * interval)
			s.during(interval / 2) // its report is on its way
			faultkit.Pause(t, s.agent.Pid())
			s.during(time.Until(asked.Add(hold)))
			p.Release(faultkit.Out)
			released := time.Now()
			if hold < 2*interval {
				// It arrives in the session, and counts, as what it is.
				w.until(5*time.Second, released, "the report to arrive", func(r reading) bool {
					return r.health.LastChecked.Sub(asked).Abs() < time.Second
				})
			}
			_, now := w.untilState(40*time.Second, released, sandbox.HealthUnknown)
			if late := now.from.Sub(asked); hold < 2*interval && late < 14*time.Second {
				t.Errorf("UNKNOWN %v after the attempt", late)
			}
			s.during(interval) // neverAhead watches
			for _, r := range w.since(asked.Add(15*time.Second + interval/10)) {
				if r.health.State != sandbox.HealthUnknown {
					t.Fatalf("a report was fresh %v after its attempt: %v", r.from.Sub(asked), r)
				}
			}
			faultkit.Resume(t, s.agent.Pid())
			w.untilState(20*time.Second, time.Now(), sandbox.HealthHealthy)
		})
	}
}

// T19: a peer that says nothing, on a connection that is fine, is noticed by
// either end within 15 s. (The agent is asked as fast as it answers.)
func TestT19SilentPeer(t *testing.T) {
	t.Parallel()
	for name, silent := range map[string]func(s *site, p *faultkit.Proxy) *kit.Process{
		"agent":   func(s *site, _ *faultkit.Proxy) *kit.Process { return s.agent },
		"gateway": func(s *site, _ *faultkit.Proxy) *kit.Process { return s.gateway },
		"link":    func(s *site, p *faultkit.Proxy) *kit.Process { p.Hold(faultkit.Both); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := proxiedSite(t)
			x := s.target(answer(200))
			s.exposeAll(s.client(), "", x)
			w := s.watch(serviceOf(x), good(x)...)
			w.untilState(15*time.Second, time.Time{}, sandbox.HealthHealthy)
			// In the middle between two reports: the agent has sent its next one after
			// 2.5 s, the gateway misses the next one after as long.
			s.during(time.Until(x.untilAsked(2 * interval).Add(interval / 2)))
			began := time.Now()
			if process := silent(s, p); process != nil {
				faultkit.Pause(t, process.Pid())
			}
			// What is silent cannot be asked.
			if name != "gateway" {
				before, now := w.until(20*time.Second, began, "the gateway to notice", func(r reading) bool {
					return r.health.Reason == "SupervisorDisconnected"
				})
				within(t, "the gateway has noticed", began, before, now, 2*interval, 3*interval, 0)
			}
			if name != "agent" {
				last := began
				for {
					at := time.Now()
					if st, err := s.agentStatus(); err != nil {
						t.Fatal(err)
					} else if !st.Gateway.Connected {
						break
					}
					last = at
				}
				within(t, "the agent has noticed", began, reading{from: last}, reading{to: time.Now()}, 2*interval, 3*interval, 0)
			}
		})
	}
}

// A link that loses a third of its packets, and one that needs 300 ms each way:
// a good target stays HEALTHY, if a little older.
func TestBadLink(t *testing.T) {
	t.Parallel()
	t.Run("loss", func(t *testing.T) {
		t.Parallel()
		s, link := linkedSite(t)
		s.startAgent()
		x := s.target(answer(200))
		s.exposeAll(s.client(), "", x)
		w := s.watch(serviceOf(x), good(x)...)
		w.untilState(15*time.Second, time.Time{}, sandbox.HealthHealthy)
		link.Lose(t, faultkit.Both, 33)
		began := time.Now()
		s.during(45 * time.Second)
		states := map[string]int{}
		for _, r := range w.since(began) {
			states[r.health.State.String()+"/"+r.health.Reason]++
		}
		if lost := link.Restore(t); lost == 0 {
			t.Error("no packet was lost")
		}
		t.Logf("answers: %v", states)
		w.untilState(40*time.Second, time.Now(), sandbox.HealthHealthy)
	})
	t.Run("delay", func(t *testing.T) {
		t.Parallel()
		s, p := proxiedSite(t)
		const delay = 300 * time.Millisecond
		p.Delay(delay)
		x := s.target(answer(200))
		s.exposeAll(s.client(), "", x)
		w := s.watch(serviceOf(x), good(x)...)
		w.untilState(15*time.Second, time.Time{}, sandbox.HealthHealthy)
		s.during(2 * interval) // until acknowledgements are known that were delayed too
		began := time.Now()
		s.late(began)
		s.during(20 * time.Second)
		// The report comes later by one delay, and its proof is older by the other.
		s.youngerThan(w, began, 6*time.Second+2*delay)
	})
}
