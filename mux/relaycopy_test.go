// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/mux"
	"github.com/sandbox-agent/sandbox-agent/mux/muxtest"
)

// joined is a pair of relays with a join between them: what the user holds, and
// what the service holds.
type joined struct {
	user, service *mux.Stream
	ended         chan error
	cancel        context.CancelFunc
}

// join puts a Join between the ends of two sessions.
func join(t *testing.T, connect muxtest.Connector, patience mux.Patience) *joined {
	t.Helper()
	left, right := make(chan *mux.Stream, 1), make(chan *mux.Stream, 1)
	_, g1 := connect(t, config(keep(left)), config(nil))
	_, g2 := connect(t, config(keep(right)), config(nil))
	user, service := open(t, g1, mux.KindRelay, ""), open(t, g2, mux.KindRelay, "")
	ctx, cancel := context.WithCancel(context.Background())
	j := &joined{user: user, service: service, ended: make(chan error, 1), cancel: cancel}
	a, b := <-left, <-right
	go func() { j.ended <- mux.Join(ctx, patience, a, b) }()
	t.Cleanup(func() {
		cancel()
		_, _ = user.Reset(), service.Reset()
	})
	return j
}

// T21: the end of one direction leaves the other alone, either way, over every
// transport.
func TestJoinPassesHalvesOn(t *testing.T) {
	muxtest.Each(t, func(t *testing.T, connect muxtest.Connector) {
		for _, userFirst := range []bool{true, false} {
			j := join(t, connect, mux.RelayPatience())
			first, second := j.user, j.service
			if !userFirst {
				first, second = second, first
			}
			write(t, first, "question")
			_ = first.CloseWrite()
			if got, err := io.ReadAll(second); string(got) != "question" || err != nil {
				t.Fatalf("read %q, %v", got, err)
			}
			write(t, second, "answer")
			write(t, second, ", and more")
			_ = second.CloseWrite()
			if got, err := io.ReadAll(first); string(got) != "answer, and more" || err != nil {
				t.Fatalf("read %q, %v", got, err)
			}
			if err := <-j.ended; err != nil {
				t.Errorf("join: %v", err)
			}
		}
	})
}

// A connection that breaks is not passed off as complete.
func TestJoinPassesAResetOn(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		for _, fromUser := range []bool{true, false} {
			j := join(t, muxtest.Pair, mux.RelayPatience())
			from, to := j.user, j.service
			if !fromUser {
				from, to = to, from
			}
			write(t, from, "half of it")
			readN(t, to, 10)
			_ = from.Reset()
			if _, err := to.Read(make([]byte, 1)); !errors.Is(err, mux.ErrReset) {
				t.Errorf("the other side reads %v", err)
			}
			if err := <-j.ended; !errors.Is(err, mux.ErrReset) {
				t.Errorf("join: %v", err)
			}
		}
	})
}

// A session that ends takes its relays with it, whatever they were doing.
func TestJoinEndsWithItsContext(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		j := join(t, muxtest.Pair, mux.RelayPatience())
		go func() { _, _ = io.Copy(j.user, zeros{}) }() // nobody reads
		testkit.Wait()
		j.cancel()
		start := time.Now()
		if err := <-j.ended; !errors.Is(err, context.Canceled) || time.Since(start) > 0 {
			t.Errorf("join: %v after %v", err, time.Since(start))
		}
		if _, err := io.Copy(io.Discard, j.service); !errors.Is(err, mux.ErrReset) {
			t.Errorf("the service reads %v", err)
		}
	})
}

// A reader that takes nothing is borne for a while; one that takes a little now
// and then, for as long as it likes.
func TestJoinStall(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		patience := mux.Patience{Stall: time.Minute, Linger: time.Hour}
		j := join(t, muxtest.Pair, patience)
		go func() { _, _ = io.Copy(j.user, zeros{}) }()
		start := time.Now()
		buf := make([]byte, mux.Window)
		for range 10 {
			<-time.After(40 * time.Second)
			_, _ = io.ReadFull(j.service, buf)
			select {
			case err := <-j.ended:
				t.Fatalf("ended after %v: %v", time.Since(start), err)
			default:
			}
		}
		stalled := time.Now()
		err := <-j.ended
		took := time.Since(stalled)
		if !errors.Is(err, os.ErrDeadlineExceeded) || took < 50*time.Second || took > time.Minute {
			t.Errorf("join: %v after %v", err, took)
		}
	})
}

// T21: the second half is bounded by its silence, not by its length.
func TestJoinLinger(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		j := join(t, muxtest.Pair, mux.Patience{Stall: time.Hour, Linger: time.Minute})
		<-time.After(3 * time.Hour) // both directions open: silence is fine
		_ = j.user.CloseWrite()
		for range 10 {
			<-time.After(50 * time.Second)
			write(t, j.service, "still there")
			readN(t, j.user, 11)
		}
		spoke := time.Now()
		if err := <-j.ended; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(spoke) != time.Minute {
			t.Errorf("join: %v after %v", err, time.Since(spoke))
		}
		if _, err := j.user.Read(make([]byte, 1)); !errors.Is(err, mux.ErrReset) {
			t.Errorf("the user reads %v", err)
		}
	})
}

// refusing is a service that takes nothing of an upload: it answers and ends.
type refusing struct {
	mux.Duplex
	refused chan struct{} // closed by the first Write
	once    sync.Once
	answer  io.Reader
}

func (r *refusing) Write([]byte) (int, error) {
	r.once.Do(func() { close(r.refused) })
	return 0, syscall.EPIPE
}

func (r *refusing) Read(p []byte) (int, error) {
	<-r.refused
	return r.answer.Read(p)
}

// A service whose end looks like a good one, since the error showed itself to
// whoever wrote to it: the answer is there before the upload breaks.
func TestJoinKeepsTheAnswerToACutUpload(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		got := make(chan *mux.Stream, 1)
		_, g := muxtest.Pair(t, config(keep(got)), config(nil))
		user := open(t, g, mux.KindRelay, "")
		unused, other := net.Pipe()
		defer func() { _, _ = unused.Close(), other.Close() }()
		service := &refusing{Duplex: halfless{unused}, refused: make(chan struct{}), answer: strings.NewReader("too large")}
		ended := make(chan error, 1)
		go func() { ended <- mux.Join(t.Context(), mux.RelayPatience(), <-got, service) }()
		began, broke := time.Now(), make(chan time.Duration, 1)
		go func() {
			_, _ = io.Copy(user, zeros{})
			broke <- time.Since(began)
		}()
		if b, err := io.ReadAll(user); string(b) != "too large" || err != nil {
			t.Errorf("read %q, %v", b, err)
		}
		if after := <-broke; after < 200*time.Millisecond || after > time.Second {
			t.Errorf("the upload broke after %v", after)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = user.Close()
	})
}

// halfless is a connection that nobody ends by halves.
type halfless struct{ net.Conn }

func (halfless) CloseWrite() error { return nil }

// A server that refuses an upload answers and resets the connection: the answer
// arrives, and the relay ends though its user goes on sending.
func TestJoinKeepsTheLastWords(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadFull(c, make([]byte, 1))
			_, _ = io.WriteString(c, "too large")
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close() // with unread bytes: a reset
		}
	}()
	handle := func(s *mux.Stream) {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			_ = s.Reset()
			return
		}
		_ = s.Answer(mux.RelayAccepted)
		_ = mux.Join(context.Background(), mux.RelayPatience(), s, c.(*net.TCPConn))
	}
	_, g := muxtest.Connect(t, "unix", config(handle), config(nil))
	for range 5 {
		r := relay(t, g, "")
		sent := make(chan error, 1)
		go func() {
			_, err := io.Copy(r, zeros{})
			sent <- err
		}()
		if got := readN(t, r, 9); string(got) != "too large" {
			t.Fatalf("read %q", got)
		}
		if err := <-sent; err == nil {
			t.Error("the upload did not end")
		}
	}
}
