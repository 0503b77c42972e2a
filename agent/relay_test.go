// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/mux"
	"github.com/sandbox-agent/sandbox-agent/mux/muxtest"
	"github.com/sandbox-agent/sandbox-agent/probe"
	"github.com/sandbox-agent/sandbox-agent/report"
)

// bench is relays behind a session, as a gateway reaches them.
type bench struct {
	*relays
	gateway *mux.Session
}

// newBench returns relays whose ops port is 4. Real sockets are dialled unless
// dial is given.
func newBench(t *testing.T, connect muxtest.Connector, services ...probe.Service) *bench {
	t.Helper()
	tracker, logger := report.NewTracker(), testkit.Logger(t)
	b := &bench{relays: newRelays(&net.TCPAddr{Port: 4}, tracker, logger)}
	b.desire(services)
	tracker.Services(services, time.Now())
	ctx, cancel := context.WithCancel(context.Background())
	handle := func(s *mux.Stream) { b.handle(ctx, s) }
	_, b.gateway = connect(t, mux.Config{Handle: handle}, mux.Config{})
	t.Cleanup(func() {
		cancel()
		b.wait()
	})
	return b
}

func (b *bench) open(t *testing.T, service string) *mux.Relay {
	t.Helper()
	r, err := b.gateway.OpenRelay(context.Background(), service)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { _ = r.Reset() })
	return r
}

// refused returns the status that a relay is refused with.
func (b *bench) refused(t *testing.T, service string) mux.RelayStatus {
	t.Helper()
	r := b.open(t, service)
	err := r.Await()
	refusal, ok := errors.AsType[*mux.RelayError](err)
	if !ok {
		t.Fatalf("relay to %q: %v", service, err)
	}
	return refusal.Status
}

func at(name string, port uint16, revision uint64) probe.Service {
	return probe.Service{Name: name, Revision: revision, Target: probe.Target{Port: port}}
}

// serve listens on a loopback address and hands out what connects.
func serve(t *testing.T, network, addr string) (uint16, <-chan *net.TCPConn) {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Skipf("%s %s: %v (a loopback with IPv6 is needed)", network, addr, err)
	}
	conns := make(chan *net.TCPConn, 16)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns <- c.(*net.TCPConn)
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	return uint16(l.Addr().(*net.TCPAddr).Port), conns
}

// T02: a service is found on either loopback address. T21: the reply survives
// the end of the question.
func TestRelayReachesTheService(t *testing.T) {
	for name, addr := range map[string][2]string{"IPv4": {"tcp4", "127.0.0.1:0"}, "IPv6": {"tcp6", "[::1]:0"}} {
		t.Run(name, func(t *testing.T) {
			port, conns := serve(t, addr[0], addr[1])
			b := newBench(t, muxtest.Pair, at("web", port, 1))
			r := b.open(t, "web")
			if _, err := io.WriteString(r, "question"); err != nil {
				t.Fatal(err)
			}
			_ = r.CloseWrite()
			c := <-conns
			defer func() { _ = c.Close() }()
			if got, err := io.ReadAll(c); string(got) != "question" || err != nil {
				t.Fatalf("the service reads %q, %v", got, err)
			}
			_, _ = io.WriteString(c, "reply")
			_ = c.Close()
			if got, err := io.ReadAll(r); string(got) != "reply" || err != nil {
				t.Errorf("the gateway reads %q, %v", got, err)
			}
		})
	}
}

// T02: the address that the last probe saw answering comes first.
func TestRelayPrefersTheProbedAddress(t *testing.T) {
	svc := at("web", 80, 1)
	b := newBench(t, muxtest.Pair, svc)
	for _, seen := range []netip.Addr{{}, loopback4, loopback6} {
		j := probe.NewJudge(time.Now())
		v, changed := j.Observe(probe.Attempt{Outcome: probe.Pass, Reason: probe.OK, Addr: seen}, false)
		b.tracker.Observed(svc, v, changed)
		want := loopback4
		if seen == loopback6 {
			want = loopback6
		}
		addrs := b.addresses("web", 80)
		if len(addrs) != 2 || addrs[0] != netip.AddrPortFrom(want, 80) || addrs[1].Addr() == want {
			t.Errorf("after an answer of %v: %v", seen, addrs)
		}
	}
	// What was seen of another port says nothing.
	if addrs := b.addresses("web", 81); addrs[0].Addr() != loopback4 {
		t.Errorf("of another port: %v", addrs)
	}
}

// T23: nothing is dialled but ports of the desired state, and never the agent's
// own.
func TestRelayRefusesWhatIsNotDesired(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		b := newBench(t, muxtest.Pair, at("web", 80, 1), at("self", 4, 2))
		b.dial = func(context.Context, []netip.AddrPort) (*net.TCPConn, mux.RelayStatus) {
			t.Error("something was dialled")
			return nil, mux.RelayRefused
		}
		for service, want := range map[string]mux.RelayStatus{
			"":             mux.RelayUnknownService,
			"other":        mux.RelayUnknownService,
			"127.0.0.1:80": mux.RelayUnknownService,
			"80":           mux.RelayUnknownService,
			"web\x00":      mux.RelayUnknownService,
			"self":         mux.RelayForbidden,
		} {
			if got := b.refused(t, service); got != want {
				t.Errorf("%q: %v, want %v", service, got, want)
			}
		}
		b.desire(nil) // an empty list is one, too
		if got := b.refused(t, "web"); got != mux.RelayUnknownService {
			t.Errorf("a service that is gone: %v", got)
		}
	})
}

// A relay may come a moment before its service is known.
func TestRelayWaitsForItsService(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		b := newBench(t, muxtest.Pair)
		asked := make(chan uint16, 1)
		b.dial = func(_ context.Context, addrs []netip.AddrPort) (*net.TCPConn, mux.RelayStatus) {
			asked <- addrs[0].Port()
			return nil, mux.RelayRefused
		}
		r := b.open(t, "web")
		<-time.After(desiredGrace - time.Millisecond)
		b.desire([]probe.Service{at("api", 1, 1)})
		b.desire([]probe.Service{at("api", 1, 1), at("web", 80, 2)})
		if port := <-asked; port != 80 {
			t.Errorf("port %d was dialled", port)
		}
		_ = r.Await()
	})
}

// T20: the cap is clear to whoever meets it, and gives way again.
func TestRelayCap(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		b := newBench(t, muxtest.Pair, at("web", 80, 1))
		hang, release := context.WithCancel(context.Background())
		b.dial = func(context.Context, []netip.AddrPort) (*net.TCPConn, mux.RelayStatus) {
			<-hang.Done()
			return nil, mux.RelayTimeout
		}
		// A second session of the same agent, as during a move.
		other := newBench(t, muxtest.Pair)
		other.relays = b.relays
		_, second := muxtest.Pair(t, mux.Config{Handle: func(s *mux.Stream) { b.handle(context.Background(), s) }}, mux.Config{})
		for range mux.MaxRelays {
			b.open(t, "web")
		}
		testkit.Wait()
		one := &bench{relays: b.relays, gateway: second}
		if got := one.refused(t, "web"); got != mux.RelayTooMany {
			t.Errorf("one above the cap: %v", got)
		}
		release()
		testkit.Wait()
		if got := one.refused(t, "web"); got != mux.RelayTimeout {
			t.Errorf("after the others have ended: %v", got)
		}
	})
}

// Relays that are open when the agent stops have five seconds, new ones none.
func TestRelaysWhenStopping(t *testing.T) {
	for _, end := range []time.Duration{time.Second, time.Hour} {
		port, conns := serve(t, "tcp4", "127.0.0.1:0")
		b := newBench(t, muxtest.Pair, at("web", port, 1))
		r := b.open(t, "web")
		if err := r.Await(); err != nil {
			t.Fatal(err)
		}
		c := <-conns
		if left := b.stop(relayGrace); left != relayGrace {
			t.Errorf("the open relay has %v", left)
		}
		if got := b.refused(t, "web"); got != mux.RelayStopping {
			t.Errorf("a new one: %v", got)
		}
		start := time.Now()
		ctx := context.Background()
		if end > relayGrace {
			// The grace itself, which real sockets cannot shorten, is cut here.
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, 10*time.Millisecond)
			defer cancel()
		} else {
			_ = c.Close()
			_ = r.CloseWrite()
		}
		b.settle(ctx)
		if took := time.Since(start); took > relayGrace/2 {
			t.Errorf("settled after %v", took)
		}
		_ = c.Close()
	}
}

// TestRelaysSettleInTime holds the grace, without sockets.
func TestRelaysSettleInTime(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		b := newBench(t, muxtest.Pair)
		if left := b.stop(relayGrace); left != 0 {
			t.Errorf("no relay is open and has %v", left)
		}
		b.stopping = false
		b.enter()
		b.stop(relayGrace)
		start := time.Now()
		b.settle(context.Background())
		if took := time.Since(start); took != relayGrace {
			t.Errorf("settled after %v", took)
		}
		b.leave()
	})
}
