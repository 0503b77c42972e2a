// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/mux"
	"github.com/sandbox-agent/sandbox-agent/mux/muxtest"
)

// raw returns an agent that speaks the multiplexer's protocol by itself, and
// the gateway's session with it.
func raw(t *testing.T, cfg mux.Config) (*yamux.Session, *mux.Session) {
	t.Helper()
	return engine(t, sides[1], cfg)
}

// T20: a peer that accepts nothing neither blocks an open beyond its context
// nor costs the session, and when it accepts again all is well.
func TestOpenIsBoundedWhenNobodyAccepts(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		agent, g := raw(t, config(nil))
		var held []*mux.Stream
		full := 0
		for range 300 {
			st, err := g.Open(context.Background(), mux.KindRelay, []byte("svc"))
			switch {
			case errors.Is(err, mux.ErrTooManyStreams):
				full++
			case err != nil:
				t.Fatalf("open: %v", err)
			default:
				held = append(held, st)
			}
		}
		if len(held) != mux.DefaultMaxStreams || full != 300-len(held) {
			t.Fatalf("%d opened, %d refused", len(held), full)
		}
		for _, st := range held[10:] {
			_ = st.Close()
		}
		testkit.Wait()
		// Streams that were given up still count with the peer.
		late := 0
		for range 100 {
			start := time.Now()
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
			st, err := g.Open(ctx, mux.KindRelay, nil)
			cancel()
			if err == nil {
				_ = st.Close()
				continue
			}
			if late++; !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 3*time.Second {
				t.Fatalf("open: %v after %v", err, time.Since(start))
			}
		}
		if want := 100 - (mux.Backlog - mux.DefaultMaxStreams); late != want {
			t.Errorf("%d opens ran into their context, want %d", late, want)
		}
		<-time.After(2 * time.Minute)
		if err := g.Err(); err != nil {
			t.Fatalf("the session ended: %v", err)
		}
		go func() {
			for st, err := agent.AcceptStream(); err == nil; st, err = agent.AcceptStream() {
				_ = st.Close()
			}
		}()
	})
}

// T20: what relays do or fail to do leaves the control stream alone.
func TestStuckRelaysLeaveControlUntouched(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		stuck := make(chan *mux.Stream, 300)
		a, g := muxtest.Pair(t, config(keep(stuck)), config(echo))
		control := open(t, a, mux.KindControl, "")
		refused := 0
		for n := range 300 {
			st, err := g.Open(context.Background(), mux.KindRelay, []byte("svc"))
			if errors.Is(err, mux.ErrTooManyStreams) {
				refused++
				continue
			}
			if err != nil {
				t.Fatalf("open: %v", err)
			}
			size := 100
			if n < 40 {
				size = mux.Window + 1 // more than a stuck reader takes
			}
			go func() { _, _ = st.Write(make([]byte, size)) }()
		}
		if refused != 300-mux.DefaultMaxStreams {
			t.Errorf("%d opens refused", refused)
		}
		ping(t, control, 24)
	})
}

// ping exchanges a message every 5 s and wants the answer in no time.
func ping(t *testing.T, control *mux.Stream, times int) {
	t.Helper()
	for range times {
		<-time.After(5 * time.Second)
		start := time.Now()
		write(t, control, "ping")
		if got := readN(t, control, 4); string(got) != "ping" {
			t.Fatalf("got %q", got)
		}
		if took := time.Since(start); took > 0 {
			t.Fatalf("answer after %v", took)
		}
	}
}

func TestQuietSessionLivesOn(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		a, g := muxtest.Pair(t, config(nil), config(echo))
		control := open(t, a, mux.KindControl, "")
		ping(t, control, 120)
		<-time.After(10 * time.Minute)
		ping(t, control, 1)
		if a.Err() != nil || g.Err() != nil {
			t.Errorf("ended: %v, %v", a.Err(), g.Err())
		}
	})
}

func TestStreamWithoutHeaderIsDropped(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		got := make(chan *mux.Stream, 1)
		agent, g := raw(t, config(keep(got)))
		start := time.Now()
		const total = mux.MaxUnread + 50
		took := make(chan time.Duration, total)
		for range total {
			st, err := agent.OpenStream()
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				if _, err := st.Read(make([]byte, 1)); !errors.Is(err, yamux.ErrConnectionReset) {
					t.Errorf("read: %v", err)
				}
				took <- time.Since(start)
			}()
		}
		atOnce := 0
		for range total {
			switch d := <-took; d {
			case 0:
				atOnce++
			case 10 * time.Second:
			default:
				t.Errorf("dropped after %v", d)
			}
		}
		if atOnce != total-mux.MaxUnread {
			t.Errorf("%d dropped at once, want %d", atOnce, total-mux.MaxUnread)
		}
		if len(got) > 0 || g.Err() != nil {
			t.Errorf("%d handled, session: %v", len(got), g.Err())
		}
	})
}

func TestStreamOfTheWrongKindIsReset(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		got := make(chan *mux.Stream, 1)
		agent, _ := raw(t, config(keep(got)))
		for _, first := range [][]byte{mux.Opening(mux.KindRelay, nil), mux.Opening(0, nil), {1, 0xff, 0xff}} {
			st, err := agent.OpenStream()
			if err != nil {
				t.Fatal(err)
			}
			_, _ = st.Write(first)
			if _, err := st.Read(make([]byte, 1)); !errors.Is(err, yamux.ErrConnectionReset) {
				t.Errorf("%x: %v", first, err)
			}
		}
		if len(got) > 0 {
			t.Error("handled")
		}
	})
}

func TestCloseIsIdempotentAndSaysWhy(t *testing.T) {
	muxtest.Each(t, func(t *testing.T, connect muxtest.Connector) {
		a, g := connect(t, config(nil), config(nil))
		if a.Err() != nil || g.Err() != nil {
			t.Fatalf("ended: %v, %v", a.Err(), g.Err())
		}
		for range 3 {
			if err := a.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		<-a.Done()
		<-g.Done()
		if a.Err() != mux.ErrSessionClosed {
			t.Errorf("closed side: %v", a.Err())
		}
		if err := g.Err(); !errors.Is(err, io.EOF) {
			t.Errorf("other side: %v, want EOF", err)
		}
		if g.RemoteAddr() == nil {
			t.Error("no address")
		}
	})
}

// T19: a peer whose connection ends is noticed at once; one that is silent as
// soon as something is to be sent and the connection takes nothing for 10 s.
func TestPeerThatVanishes(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		a, g := net.Pipe()
		cut := muxtest.Faulty(a)
		_, gs := muxtest.Over(t, cut, g, config(nil), config(nil))
		start := time.Now()
		cut.Cut()
		<-gs.Done()
		if took := time.Since(start); took != 0 || gs.Err() == nil {
			t.Errorf("noticed after %v: %v", took, gs.Err())
		}
	})
	for _, s := range sides {
		t.Run("stalled "+s.name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				a, g := net.Pipe()
				links := [2]*muxtest.Conn{muxtest.Faulty(a), muxtest.Faulty(g)}
				opener, _ := s.pick(muxtest.Over(t, links[0], links[1], config(swallow), config(swallow)))
				st := open(t, opener, s.kind, "svc")
				testkit.Wait()
				links[0].Stall()
				links[1].Stall()
				start := time.Now()
				_, err := st.Write(make([]byte, 100))
				if took := time.Since(start); took != 10*time.Second || !errors.Is(err, mux.ErrSessionClosed) || !errors.Is(err, mux.ErrStalled) {
					t.Errorf("write: %v after %v", err, took)
				}
				if <-opener.Done(); !errors.Is(opener.Err(), mux.ErrStalled) {
					t.Errorf("session: %v", opener.Err())
				}
			})
		})
	}
}

// T18: the end of a displaced session does not touch the newer one.
func TestSessionsOfOneAgentAreIndependent(t *testing.T) {
	handler, sessions := muxtest.Accept(t, config(echo))
	gw := muxtest.Serve(t, handler)
	dialer := gw.Dialer(gw.HTTPS)
	var previous *mux.Session
	for range 10 {
		s, err := dialer.Dial(context.Background(), config(nil))
		if err != nil {
			t.Fatal(err)
		}
		at := <-sessions
		control := open(t, s, mux.KindControl, "")
		if previous != nil {
			_ = previous.Close()
		}
		write(t, control, "ping")
		readN(t, control, 4)
		if s.Err() != nil || at.Err() != nil {
			t.Fatalf("the newer session ended: %v, %v", s.Err(), at.Err())
		}
		previous = at
	}
	_ = previous.Close()
}

// Everything at once, under the race detector, and nothing is left behind.
func TestStormOfStreams(t *testing.T) {
	muxtest.Each(t, func(t *testing.T, connect muxtest.Connector) {
		a, g := connect(t, config(echo), config(echo))
		var wg sync.WaitGroup
		for i := range 16 {
			opener, kind := a, mux.KindControl
			if i%2 == 0 {
				opener, kind = g, mux.KindRelay
			}
			wg.Go(func() {
				for n := range 12 {
					st, err := opener.Open(context.Background(), kind, []byte("svc"))
					if err != nil {
						t.Errorf("open: %v", err)
						return
					}
					storm(t, st, (i+n)%4)
				}
			})
		}
		wg.Wait()
		eventually(t, "both ends forget their streams", func() bool { return mux.Kept(a) == 0 && mux.Kept(g) == 0 })
		if a.Err() != nil || g.Err() != nil {
			t.Errorf("ended: %v, %v", a.Err(), g.Err())
		}
	})
}

func storm(t *testing.T, st *mux.Stream, how int) {
	payload := slices.Repeat([]byte("0123456789"), 5000)
	switch how {
	case 0:
		_ = st.Close()
	case 1:
		go func() { _, _ = st.Write(payload) }()
		_ = st.Reset()
	case 2:
		go func() {
			_, _ = st.Write(payload)
			_ = st.CloseWrite()
		}()
		if p, err := io.ReadAll(st); err != nil || !slices.Equal(p, payload) {
			t.Errorf("echo of %d bytes, %v", len(p), err)
		}
		_ = st.Close()
	case 3:
		_, _ = st.Write(payload)
		_ = st.Close()
	}
}
