// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/gateway/identity"
	"github.com/sandbox-agent/sandbox-agent/internal/secret"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/mux"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

// T18: whatever the order in which sessions of one sandbox come, are displaced
// and clean up, the last one keeps its place.
func TestTheWinnerIsNeverErased(t *testing.T) {
	w := newWorld(t)
	token := w.token(t, "sandbox-1", 3)
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var wg sync.WaitGroup
		for range 2 + rng.IntN(3) {
			yields, closes := rng.IntN(20), rng.IntN(2) == 0
			wg.Go(func() {
				for range yields {
					runtime.Gosched()
				}
				if s, _ := w.attach(t, token, "instance-1"); s != nil && closes {
					_ = s.Close()
				}
			})
		}
		if rng.IntN(2) == 0 {
			wg.Go(func() { w.Close("sandbox-1") })
		}
		wg.Wait() // their clean-up is still under way
		winner, refused := w.attach(t, token, "instance-1")
		if refused != nil {
			t.Fatalf("seed %d: %v", seed, refused)
		}
		eventually(t, "the others are gone", func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.Server.live) == 1
		})
		slot := w.cache.Slot("sandbox-1")
		w.mu.Lock()
		holder := w.Server.registry.Holder("sandbox-1")
		w.mu.Unlock()
		if !open(winner) || w.Len() != 1 || !slot.Live || slot.Session != holder {
			t.Fatalf("seed %d: open %t, %d held, by %d; slot %+v", seed, open(winner), w.Len(), holder, slot)
		}
	}
}

// The old session's late clean-up, step by step: it is displaced while its
// connection does not end.
func TestLateCleanUp(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t)
		old := w.agent(t, "instance-1")
		now := w.agent(t, "instance-1")
		testkit.Wait()
		if open(old.session) || !open(now.session) || w.Len() != 1 {
			t.Fatalf("%d sessions", w.Len())
		}
		now.report(t, good(2, 11))
		w.wantAnswer(t, 11, probe.Healthy, health.NoReason)
		if n := w.count(t, ends, "displaced"); n != 1 || w.count(t, conflicts, "") != 0 {
			t.Errorf("displaced %d times", n)
		}
	})
}

// A store that hangs does not keep a lost session alive.
func TestASlowStoreHidesNoLoss(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t)
		block := make(chan struct{})
		w.dir.change(func(d *directory) { d.block = block })
		a := w.agent(t, "instance-1")
		w.wantAnswer(t, 11, probe.Healthy, health.NoReason)
		_ = a.session.Close()
		testkit.Wait()
		w.wantAnswer(t, 11, probe.Unknown, health.SupervisorDisconnected)
		if w.Len() != 0 {
			t.Error("the lost session has its place still")
		}
		close(block)
	})
}

// A sandbox that was stopped between the handshake and the session has none.
func TestStoppedSinceTheHandshake(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t)
		s, refused := w.attachThen(t, func() {
			w.dir.change(func(d *directory) { d.sandboxes["sandbox-1"] = Sandbox{3, false} })
		})
		testkit.Wait()
		if refused != nil || open(s) || w.Len() != 0 {
			t.Errorf("the session of a stopped sandbox: refused %v, open %t", refused, open(s))
		}
	})
}

// Close ends a session for whoever asks at once, so that the next generation
// conflicts with nobody.
func TestCloseGivesThePlaceUpAtOnce(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.agent(t, "instance-1")
		w.Close("sandbox-1")
		w.wantAnswer(t, 11, probe.Unknown, health.SupervisorDisconnected)
		if w.Len() != 0 {
			t.Error("the place is still taken")
		}
		w.Close("sandbox-1")
		w.Close("sandbox-9")
		w.dir.change(func(d *directory) { d.sandboxes["sandbox-1"] = Sandbox{4, true} })
		if _, refused := w.attach(t, w.token(t, "sandbox-1", 4), "instance-2"); refused != nil {
			t.Fatal(refused)
		}
		testkit.Wait()
		if open(a.session) || w.count(t, conflicts, "") != 0 || w.count(t, ends, "closed") != 1 || w.Len() != 1 {
			t.Errorf("%d conflicts, %d sessions", w.count(t, conflicts, ""), w.Len())
		}
	})
}

// Drain refuses newcomers and asks everybody else to move, spread over the
// grace, also those who were about to open a session.
func TestDrain(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t)
		const n = 20
		var agents []*fakeAgent
		for i := range n {
			id := fmt.Sprintf("sandbox-x%d", i)
			w.dir.change(func(d *directory) { d.sandboxes[id] = Sandbox{1, true} })
			s, refused := w.attach(t, w.token(t, id, 1), "instance-1")
			if refused != nil {
				t.Fatal(refused)
			}
			agents = append(agents, connect(t, s))
			agents[i].desired(t)
		}
		late, refused := w.attachThen(t, func() { w.Drain(25 * time.Second) })
		if refused != nil {
			t.Fatal(refused)
		}
		if _, refused := w.attach(t, w.token(t, "sandbox-1", 3), "instance-1"); refused == nil || refused.Status != 503 || refused.RetryAfter <= 0 {
			t.Errorf("a newcomer got %v, want 503 and when to come back", refused)
		}
		var after []time.Duration
		for _, a := range agents {
			m := a.next(t)
			if m.GetMove() == nil {
				t.Fatalf("got %v, want a move", m)
			}
			after = append(after, time.Duration(m.GetMove().GetAfterMs())*time.Millisecond)
			if !open(a.session) {
				t.Error("a session was closed before the agent had moved")
			}
		}
		slices.Sort(after)
		for i := range after {
			if want := 25 * time.Second * 3 / 4 * time.Duration(i) / n; after[i] != want.Truncate(time.Millisecond) {
				t.Errorf("agent %d moves after %v, want %v", i, after[i], want)
			}
		}
		a := connect(t, late)
		a.desired(t)
		if m := a.next(t); m.GetMove() == nil || m.GetMove().GetAfterMs() != 0 {
			t.Errorf("a session that began with the drain got %v, want to move at once", m)
		}
	})
}

// attachThen opens a session of sandbox-1; f runs between its handshake and its
// upgrade.
func (w *world) attachThen(t *testing.T, f func()) (*mux.Session, *mux.HandshakeError) {
	t.Helper()
	a, g := net.Pipe()
	refused := w.open(hello(w.token(t, "sandbox-1", 3), "instance-1"), func(cfg mux.Config) (*mux.Session, error) {
		f()
		return mux.NewGatewaySession(g, cfg)
	})
	if refused != nil {
		return nil, refused
	}
	s, err := mux.NewAgentSession(a, mux.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, nil
}

// Run ends every session, and nothing comes after it.
func TestStop(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.agent(t, "instance-1")
		w.stop()
		testkit.Wait()
		if open(a.session) || w.Len() != 0 {
			t.Error("a session outlives the server")
		}
		if _, refused := w.attach(t, w.token(t, "sandbox-1", 3), "instance-1"); refused == nil || refused.Status != 503 {
			t.Errorf("after the end: %v", refused)
		}
	})
}

// A store that does not answer ends the session, which comes back.
func TestAStoreThatFailsLater(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.agent(t, "instance-1")
		w.dir.change(func(d *directory) { d.fail = errStore })
		w.Refresh("sandbox-1")
		testkit.Wait()
		if open(a.session) {
			t.Error("the session goes on with an old desired state")
		}
		w.dir.change(func(d *directory) { d.fail = nil })
		s, _ := w.attachThen(t, func() { w.dir.change(func(d *directory) { d.fail = errStore }) })
		b := connect(t, s)
		if err := <-b.ended; status.Code(err) != codes.Unavailable {
			t.Errorf("a session without desired state ended with %v", err)
		}
		testkit.Advance(farewell)
		if open(s) {
			t.Error("it stays open")
		}
	})
}

// flaky is an Issuer that fails while told so.
type flaky struct {
	*identity.Identity
	fail atomic.Bool
}

func (f *flaky) Issue(id string, generation uint64) (secret.String, time.Time, error) {
	if f.fail.Load() {
		return secret.String{}, time.Time{}, errors.New("no entropy")
	}
	return f.Identity.Issue(id, generation)
}

// A token is renewed at half of its life, over the session.
func TestTokenRenewal(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		tokens := &flaky{Identity: newIdentity(t, time.Now)}
		logger, logs := testkit.Logs(t)
		w := build(t, logger, tokens)
		w.identity = tokens.Identity
		a := w.agent(t, "instance-1")
		a.reportOn(t, 2, 11)
		renewed := func(after time.Duration) {
			t.Helper()
			testkit.Advance(after - time.Second)
			if m := a.first(); m != nil {
				t.Fatalf("too early: %v", m)
			}
			testkit.Advance(time.Second)
			m := a.first()
			if m.GetToken() == nil {
				t.Fatalf("got %v after %v, want a token", m, after)
			}
			claims, err := w.identity.Verify(secret.New(m.GetToken().GetToken()))
			if err != nil || claims.SandboxID != "sandbox-1" || claims.Generation != 3 || time.Until(claims.Expires) < lifetime-2*time.Second {
				t.Errorf("renewed token: %+v %v", claims, err)
			}
		}
		renewed(lifetime / 2)
		renewed(lifetime / 2)
		tokens.fail.Store(true)
		testkit.Advance(lifetime/2 + 150*time.Second)
		if n := logs.Count("renewing a sandbox token failed"); n != 3 || a.first() != nil {
			t.Errorf("%d failures in 2.5 min, want one a minute", n)
		}
		tokens.fail.Store(false)
		renewed(30 * time.Second)
	})
}

// An agent that comes with an old token gets a new one at once.
func TestAnOldTokenIsRenewedAtOnce(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t)
		token := w.token(t, "sandbox-1", 3)
		testkit.Advance(lifetime * 3 / 4)
		s, refused := w.attach(t, token, "instance-1")
		if refused != nil {
			t.Fatal(refused)
		}
		a := connect(t, s)
		a.desired(t)
		testkit.Wait()
		if m := a.first(); m.GetToken() == nil {
			t.Errorf("got %v, want a token", m)
		}
	})
}

func TestMetricsAreClean(t *testing.T) {
	w := newWorld(t)
	families, err := w.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	if len(families) < 5 {
		t.Errorf("%d families", len(families))
	}
}
