// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/sandbox-agent/sandbox-agent/api/supervisor/v1"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/mux"
	"github.com/sandbox-agent/sandbox-agent/probe"
	"github.com/sandbox-agent/sandbox-agent/report"
)

// start runs a rig whose every dial reaches the gateway.
func start(t *testing.T, g *gateway) *rig {
	t.Helper()
	r := newRig(t, g.pipe)
	testkit.Wait()
	return r
}

// states renders a report: one letter per service, U, H or B.
func states(r *supervisorv1.Report) string {
	var b strings.Builder
	for _, o := range r.GetServices() {
		switch {
		case o.GetOutcome() == supervisorv1.Outcome_OUTCOME_UNSPECIFIED:
			b.WriteByte('-')
		default:
			b.WriteByte("UHB"[o.GetState()])
		}
	}
	return b.String()
}

func TestTenMinutesOfASession(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		g := newGateway(t, svc("api", 1, 80), svc("web", 2, 81))
		r := start(t, g)
		s := g.newest(t, 1)
		testkit.Advance(time.Second)
		if got := states(s.last()); got != "HH" {
			t.Fatalf("after one second the report says %q", got)
		}
		testkit.Advance(10 * time.Minute)
		s.mu.Lock()
		n, reports, at := len(s.reports), s.reports, s.at
		s.mu.Unlock()
		if n < 120 || n > 128 { // T08
			t.Errorf("%d reports in ten minutes", n)
		}
		for i, m := range reports {
			if m.GetSequence() != uint64(i+1) || i > 0 && (m.GetGeneration() < reports[i-1].GetGeneration() || at[i].Sub(at[i-1]) > 6*time.Second) {
				t.Fatalf("report %d: sequence %d, generation %d, %v after the one before", i, m.GetSequence(), m.GetGeneration(), at[i].Sub(at[max(i-1, 0)]))
			}
			for _, o := range m.GetServices() {
				if o.GetAgeMs() > 6000 || o.GetAgeMs() > m.GetSinceAckUs()/1000 && i > 0 {
					t.Fatalf("report %d: an observation of %d ms, an acknowledgement of %d µs", i, o.GetAgeMs(), m.GetSinceAckUs())
				}
			}
		}
		if dials, live := r.counts.dials.Load(), g.newest(t, 1).open(); dials != 1 || !live {
			t.Errorf("%d dials, open %t", dials, live)
		}
		if n, size := r.counts.reports.Load(), r.counts.reportBytes.Load(); int(n) != len(reports) || size < 20*n || size > 200*n {
			t.Errorf("%d reports of %d bytes are counted", n, size)
		}
		if err := r.check(context.Background()); err != nil {
			t.Errorf("the gateway's health: %v", err)
		}
	})
}

// The desired state reaches the probe loop, as a list, and the gateway learns
// at once what came of it.
func TestTheDesiredState(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		g := newGateway(t)
		r := start(t, g)
		s := g.newest(t, 1)
		if got := states(s.last()); got != "" {
			t.Errorf("an empty list is reported as %q", got)
		}
		s.desire(t, 2, svc("web", 1, 80))
		testkit.Wait()
		if got := states(s.last()); got != "H" {
			t.Errorf("the first service: %q", got)
		}
		r.mu.Lock()
		r.outcome = func(target probe.Target) probe.Outcome {
			if target.Port == 81 {
				return probe.Fail
			}
			return probe.Pass
		}
		r.mu.Unlock()
		bad := &supervisorv1.DesiredState{Version: 3, Services: []*supervisorv1.ServiceConfig{
			{Name: "api", Revision: 3, Port: 81}, {Name: "evil", Revision: 4, Port: 99999}, {Name: "web", Revision: 1, Port: 80},
		}}
		if err := s.send(&supervisorv1.GatewayMessage_Desired{Desired: bad}); err != nil {
			t.Fatal(err)
		}
		testkit.Wait()
		if got := states(s.last()); got != "UH" || r.logs.Count("a service of the desired state is left out") != 1 {
			t.Errorf("a list with one bad entry: %q", got)
		}
		testkit.Advance(16 * time.Second)
		if got := states(s.last()); got != "BH" {
			t.Errorf("after three failures: %q", got)
		}
		s.desire(t, 4)
		testkit.Wait()
		if got := states(s.last()); got != "" { // T11
			t.Errorf("an empty list is reported as %q", got)
		}
	})
}

// What breaks the protocol ends the session, and the next one is dialled.
func TestSessionsThatDoNotBegin(t *testing.T) {
	for _, tc := range []struct {
		name  string
		first *supervisorv1.GatewayMessage
		after time.Duration
		want  string
	}{
		{"not the desired state first", &supervisorv1.GatewayMessage{Message: &supervisorv1.GatewayMessage_Ack{Ack: &supervisorv1.Ack{Sequence: 1}}}, 0, "does not begin with the desired state"},
		{"an empty message", &supervisorv1.GatewayMessage{}, 0, "does not begin with the desired state"},
		{"too many services", &supervisorv1.GatewayMessage{Message: &supervisorv1.GatewayMessage_Desired{
			Desired: &supervisorv1.DesiredState{Services: make([]*supervisorv1.ServiceConfig, 257)},
		}}, 0, "more services than the limit"},
		{"nothing for 10 s", nil, openTimeout, "waiting for the desired state"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				g := newGateway(t)
				g.mute = true
				r := start(t, g)
				s := g.newest(t, 1)
				if tc.first != nil {
					if err := s.stream.Send(tc.first); err != nil {
						t.Fatal(err)
					}
				} else {
					testkit.Advance(tc.after - time.Millisecond)
					if !s.open() {
						t.Fatal("given up too early")
					}
					testkit.Advance(time.Millisecond)
				}
				testkit.Wait()
				live, _, err := r.status()
				if live || s.open() || err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("live %t, open %t, error %v", live, s.open(), err)
				}
				g.set(func(g *gateway) { g.mute = false })
				testkit.Advance(time.Second)
				if live, _, _ := r.status(); !live || len(g.all()) != 2 {
					t.Errorf("%d sessions, live %t", len(g.all()), live)
				}
			})
		})
	}
}

// A gateway that ends the session with a status is heard.
func TestWhyASessionEnded(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		g := newGateway(t)
		r := start(t, g)
		g.newest(t, 1).end <- status.Error(codes.InvalidArgument, "more services than the limit")
		testkit.Wait()
		if live, _, err := r.status(); live || status.Code(err) != codes.InvalidArgument {
			t.Errorf("live %t: %v", live, err)
		}
	})
}

// T19: no acknowledgement for 10 s, and the session is given up.
func TestAGatewayThatAcknowledgesNothing(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		g := newGateway(t, svc("web", 1, 80))
		r := start(t, g)
		testkit.Advance(time.Minute)
		g.set(func(g *gateway) { g.deaf = true })
		began := time.Now()
		for g.newest(t, 1).open() {
			testkit.Advance(100 * time.Millisecond)
		}
		if took := time.Since(began); took < report.AckTimeout || took > report.AckTimeout+probe.Interval+time.Second {
			t.Errorf("given up after %v", took)
		}
		if n := r.counts.failures[failedAck].Load(); n != 1 {
			t.Errorf("counted %d times", n)
		}
		g.set(func(g *gateway) { g.deaf = false })
		testkit.Advance(time.Second)
		if s := g.newest(t, 2); !s.open() || states(s.last()) != "H" {
			t.Errorf("the next session says %q", states(s.last()))
		}
	})
}

// A move keeps the old session until a new one is accepted, however long that
// takes.
func TestMove(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		g := newGateway(t, svc("web", 1, 80))
		d := &dialling{to: g, next: func(int) error { return nil }}
		r := newRig(t, d.open)
		old := g.newest(t, 1)
		testkit.Advance(20 * time.Second)
		d.set(func(int) error { return &mux.RefusedError{Status: 503, RetryAfter: 5 * time.Second} })
		old.move(t, 3*time.Second)
		testkit.Advance(3*time.Second - time.Millisecond)
		if d.count() != 1 {
			t.Fatal("the agent moves before its time")
		}
		testkit.Advance(time.Millisecond)
		if d.count() != 2 {
			t.Fatal("the agent does not move")
		}
		old.mu.Lock()
		before := len(old.reports)
		old.mu.Unlock()
		testkit.Advance(time.Minute)
		old.mu.Lock()
		during := len(old.reports) - before
		old.mu.Unlock()
		if live, _, _ := r.status(); !live || !old.open() || during < 11 || d.count() < 8 {
			t.Fatalf("while nobody accepts: live %t, old session open %t, %d reports, %d dials", live, old.open(), during, d.count())
		}
		d.set(func(int) error { return nil })
		for len(g.all()) == 1 {
			if live, _, _ := r.status(); !live || !old.open() {
				t.Fatal("a gap before the new session")
			}
			testkit.Advance(10 * time.Millisecond)
		}
		testkit.Wait()
		now := g.newest(t, 2)
		if live, _, _ := r.status(); !live || old.open() || !now.open() || states(now.last()) != "H" {
			t.Errorf("after the move: live %t, old open %t, new open %t, reports %q", live, old.open(), now.open(), states(now.last()))
		}
		testkit.Advance(time.Minute)
		if !now.open() || len(g.all()) != 2 || r.logs.Count("no session with the gateway") != 0 {
			t.Errorf("%d sessions", len(g.all()))
		}
	})
}

// Asked twice, the agent moves once; asked again by the next gateway, it moves
// again.
func TestMovesAreOneAtATime(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		g := newGateway(t, svc("web", 1, 80))
		r := newRig(t, func(_ context.Context, cfg mux.Config) (*mux.Session, error) {
			sleep(context.Background(), 100*time.Millisecond) // so that two dials overlap
			return g.pipe(context.Background(), cfg)
		})
		testkit.Advance(time.Second)
		first := g.newest(t, 1)
		first.move(t, time.Second)
		first.move(t, time.Second)
		testkit.Advance(2 * time.Second)
		second := g.newest(t, 2)
		if first.open() || !second.open() {
			t.Errorf("the first is open: %t, the second: %t", first.open(), second.open())
		}
		second.move(t, 0)
		testkit.Advance(time.Second)
		if third := g.newest(t, 3); second.open() || !third.open() {
			t.Error("the second move failed")
		}
		if live, _, _ := r.status(); !live {
			t.Error("no session")
		}
		open := 0
		for _, s := range g.muxes {
			if s.Err() == nil {
				open++
			}
		}
		if open != 1 {
			t.Errorf("%d connections are open", open)
		}
	})
}

// What was observed before a session proves nothing in it: it is observed again
// at once, not at the next round.
func TestANewSessionHasNewsAtOnce(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		g := newGateway(t, svc("web", 1, 80))
		start(t, g)
		for i := range 5 {
			testkit.Advance(30*time.Second + time.Duration(i)*time.Second)
			g.newest(t, i+1).end <- errors.New("again")
			for len(g.all()) == i+1 {
				testkit.Advance(10 * time.Millisecond)
			}
			testkit.Advance(time.Second)
			m := g.newest(t, i+2).last()
			if o := m.GetServices()[0]; o.GetAgeMs()*1000 > m.GetSinceAckUs() {
				t.Errorf("one second after its opening, session %d proves nothing: age %d ms, acknowledgement of %d µs", i+2, o.GetAgeMs(), m.GetSinceAckUs())
			}
		}
	})
}

// A session that ends while the agent looks for another is no reason to wait.
func TestTheOldSessionEndsDuringAMove(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		g := newGateway(t)
		d := &dialling{to: g, next: func(n int) error {
			if n > 0 && n < 4 {
				return &mux.RefusedError{Status: 503}
			}
			return nil
		}}
		r := newRig(t, d.open)
		g.newest(t, 1).move(t, 0)
		testkit.Advance(100 * time.Millisecond)
		g.newest(t, 1).end <- errors.New("the grace is over")
		testkit.Advance(10 * time.Second)
		if live, _, _ := r.status(); !live || len(g.all()) != 2 {
			t.Errorf("live %t with %d sessions", live, len(g.all()))
		}
	})
}

// The last report says that the agent stops; once it is acknowledged, the link
// ends by itself.
func TestTheLastReport(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		g := newGateway(t)
		r := start(t, g)
		r.tracker.Stop(report.Stop{MainExited: true, ExitCode: 3})
		testkit.Wait()
		select {
		case <-r.ended:
		default:
			t.Fatal("the link goes on after its last report")
		}
		stop := g.newest(t, 1).last().GetStop()
		if stop.GetCause() != supervisorv1.StopNotice_CAUSE_MAIN_PROCESS_EXITED || stop.GetExitCode() != 3 {
			t.Errorf("the last report says %v", stop)
		}
		if g.newest(t, 1).open() {
			t.Error("the session is open")
		}
	})
}

// A relay of the session that the agent has moved to is served like any other.
func TestRelaysAfterAMove(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		g := newGateway(t, svc("web", 1, 80))
		r := start(t, g)
		r.relays.dial = func(ctx context.Context, _ []netip.AddrPort) (*net.TCPConn, mux.RelayStatus) {
			if ctx.Err() != nil {
				return nil, mux.RelayStopping
			}
			return nil, mux.RelayRefused // nobody listens, but it was dialled
		}
		for i := range 3 {
			relay, err := g.muxes[i].OpenRelay(context.Background(), "web")
			if err != nil {
				t.Fatal(err)
			}
			refusal, ok := errors.AsType[*mux.RelayError](relay.Await())
			if !ok || refusal.Status != mux.RelayRefused {
				t.Errorf("after %d moves a relay ends with %v", i, refusal)
			}
			_ = relay.Reset()
			g.newest(t, i+1).move(t, 0)
			testkit.Wait()
		}
	})
}
