// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux_test

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/mux"
	"github.com/sandbox-agent/sandbox-agent/mux/muxtest"
)

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
