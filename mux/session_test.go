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

// deaf is a connection whose Close and deadlines wake nobody.
type deaf struct {
	net.Conn
	release chan struct{}
}

func (c *deaf) Read([]byte) (int, error)         { <-c.release; return 0, io.EOF }
func (c *deaf) Write(p []byte) (int, error)      { return len(p), nil }
func (c *deaf) Close() error                     { return nil }
func (c *deaf) SetDeadline(time.Time) error      { return nil }
func (c *deaf) SetReadDeadline(time.Time) error  { return nil }
func (c *deaf) SetWriteDeadline(time.Time) error { return nil }

func TestCloseReturnsWhateverTheConnectionDoes(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		conn := &deaf{release: make(chan struct{})}
		s, err := mux.NewGatewaySession(conn, config(nil))
		if err != nil {
			t.Fatal(err)
		}
		st := open(t, s, mux.KindRelay, "svc")
		read := make(chan error, 1)
		go func() { _, err := st.Read(make([]byte, 1)); read <- err }()
		testkit.Wait()
		start := time.Now()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if s.Close() == nil {
					t.Error("Close does not say that the connection hangs")
				}
			})
		}
		<-s.Done()
		if err := <-read; !errors.Is(err, mux.ErrSessionClosed) {
			t.Errorf("read: %v", err)
		}
		wg.Wait()
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("Close took %v", took)
		}
		close(conn.release)
		testkit.Wait()
		if err := s.Close(); err != nil {
			t.Errorf("Close in the end: %v", err)
		}
	})
}

// reluctant is a connection whose Close waits to be allowed.
type reluctant struct {
	net.Conn
	allowed chan struct{}
}

func (c reluctant) Close() error {
	<-c.allowed
	return c.Conn.Close()
}

// Readers need not wait until the connection of their session is closed, which
// may take its time.
func TestReadersLeaveBeforeTheConnectionIsClosed(t *testing.T) {
	for name, violation := range map[string][]byte{
		"Close":                      nil,
		"found by us":                header(2, 1, 0, 1),
		"found in a stream":          header(1, 1, 1, 0),
		"connection ends by the way": {},
	} {
		t.Run(name, func(t *testing.T) {
			a, g := net.Pipe()
			conn := reluctant{g, make(chan struct{})}
			s, err := mux.NewGatewaySession(conn, config(nil))
			if err != nil {
				t.Fatal(err)
			}
			drained := make(chan struct{})
			go func() { _, _ = io.Copy(io.Discard, a); close(drained) }()
			_, _ = a.Write(header(1, 1, 1, 0))
			errs := make(chan error, 20)
			for range cap(errs) {
				st := open(t, s, mux.KindRelay, "svc")
				go func() { _, err := st.Read(make([]byte, 1)); errs <- err }()
			}
			closed := make(chan error, 1)
			switch {
			case violation == nil:
				go func() { closed <- s.Close() }()
			case len(violation) == 0:
				_ = a.Close()
			default:
				_, _ = a.Write(violation)
			}
			limit := time.After(5 * time.Second)
			for range cap(errs) {
				select {
				case err := <-errs:
					if !errors.Is(err, mux.ErrSessionClosed) {
						t.Errorf("read: %v", err)
					}
				case <-limit:
					t.Fatal("readers have not left")
				}
			}
			close(conn.allowed)
			if violation == nil {
				err = <-closed
			} else {
				err = s.Close()
			}
			if err != nil {
				t.Errorf("Close: %v", err)
			}
			_ = a.Close()
			<-drained
		})
	}
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

func TestCloseOnAStalledConnectionReturnsAtOnce(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		a, g := net.Pipe()
		link := muxtest.Faulty(g)
		_, gs := muxtest.Over(t, a, link, config(swallow), config(swallow))
		sts := []*mux.Stream{open(t, gs, mux.KindRelay, "a"), open(t, gs, mux.KindRelay, "b")}
		testkit.Wait()
		link.Stall()
		start := time.Now()
		_, _ = sts[0].Close(), sts[1].Reset()
		testkit.Wait()
		_ = gs.Close()
		if took := time.Since(start); took != 0 {
			t.Errorf("took %v", took)
		}
	})
}

// So it does while the session's own goroutines wait for the connection: one to
// read, one to answer a peer that opens streams.
func TestCloseWhileAnAnswerIsStuck(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		a, g := net.Pipe()
		s, err := mux.NewGatewaySession(g, config(swallow))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = a.Write(header(1, syn, 1, 0)) // and the answer is not read
		testkit.Wait()
		start := time.Now()
		if err := s.Close(); err != nil || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		_ = a.Close()
	})
}

// A peer that makes us answer and reads nothing is not answered without end: its
// frames wait, and then its session ends.
func TestAnswersDoNotPileUp(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		a, g := net.Pipe()
		s, err := mux.NewGatewaySession(g, config(swallow))
		if err != nil {
			t.Fatal(err)
		}
		taken, start := 0, time.Now()
		for i := range uint32(100_000) {
			_ = a.SetWriteDeadline(time.Now().Add(time.Minute))
			if _, err := a.Write(append(header(1, syn, 2*i+1, 0), header(1, rst, 2*i+1, 0)...)); err != nil {
				break
			}
			taken++
		}
		if <-s.Done(); !errors.Is(s.Err(), mux.ErrStalled) || time.Since(start) != 10*time.Second || taken > 10_000 {
			t.Errorf("%v after %v and %d streams", s.Err(), time.Since(start), taken)
		}
		_ = a.Close()
		_ = s.Close()
	})
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
