// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/mux"
)

// TestOpenRelay: a relay goes to the session that holds the sandbox, T23 by the
// service's name, and is counted by its result while it is open and when it
// has ended.
func TestOpenRelay(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t)
		ctx := context.Background()
		if _, err := w.OpenRelay(ctx, "sandbox-1", "web"); !errors.Is(err, mux.ErrSessionClosed) {
			t.Errorf("without a session: %v", err)
		}
		a, g := net.Pipe()
		if refused := w.Server.open(hello(w.token(t, "sandbox-1", 3), "a"), func(cfg mux.Config) (*mux.Session, error) {
			return mux.NewGatewaySession(g, cfg)
		}); refused != nil {
			t.Fatal(refused)
		}
		agent, err := mux.NewAgentSession(a, mux.Config{Handle: func(s *mux.Stream) {
			if string(s.Header()) == "web" {
				_ = s.Answer(mux.RelayAccepted)
				_, _ = s.Write([]byte("hello"))
			} else {
				_ = s.Answer(mux.RelayUnknownService)
			}
			_ = s.Close()
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = agent.Close() }()

		r, err := w.OpenRelay(ctx, "sandbox-1", "web")
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 10)
		if n, err := r.Read(buf); string(buf[:n]) != "hello" || err != nil {
			t.Errorf("read %q, %v", buf[:n], err)
		}
		if got := w.relaysOpen(t); got != 1 {
			t.Errorf("%d relays are open", got)
		}
		_, _ = r.Close(), r.Reset()
		other, err := w.OpenRelay(ctx, "sandbox-1", "other")
		if err != nil {
			t.Fatal(err)
		}
		if refused, ok := errors.AsType[*mux.RelayError](other.Await()); !ok || refused.Status != mux.RelayUnknownService {
			t.Errorf("an unknown service: %v", other.Await())
		}
		_ = other.Reset()
		if got := w.relaysOpen(t); got != 0 {
			t.Errorf("%d relays are open in the end", got)
		}
		for result, want := range map[string]int{"accepted": 1, "unknown_service": 1, "no_session": 1, "broken": 0} {
			if got := w.count(t, "sandbox_gateway_relays_total", result); got != want {
				t.Errorf("%d relays counted as %s, want %d", got, result, want)
			}
		}
	})
}

// relaysOpen is the gauge of open relays.
func (w *world) relaysOpen(t *testing.T) int {
	t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "sandbox_gateway_relays" {
			return int(f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	return -1
}
