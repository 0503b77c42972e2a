// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/mux"
	"github.com/sandbox-agent/sandbox-agent/mux/muxtest"
)

// answer makes an agent that answers every relay so, and then serves it.
func answer(status mux.RelayStatus, serve func(*mux.Stream)) func(*mux.Stream) {
	return func(s *mux.Stream) {
		_ = s.Answer(status)
		serve(s)
	}
}

func relay(t testing.TB, s *mux.Session, service string) *mux.Relay {
	t.Helper()
	r, err := s.OpenRelay(context.Background(), service)
	if err != nil {
		t.Fatalf("open a relay: %v", err)
	}
	t.Cleanup(func() { _ = r.Reset() })
	return r
}

// What is written before the answer is there arrives, and what is read is the
// service's alone.
func TestRelayIsWrittenToAtOnce(t *testing.T) {
	muxtest.Each(t, func(t *testing.T, connect muxtest.Connector) {
		_, g := connect(t, config(answer(mux.RelayAccepted, echo)), config(nil))
		r := relay(t, g, "web")
		write(t, r, "hello")
		if err := r.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if string(got) != "hello" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
		if err := r.Await(); err != nil {
			t.Errorf("await: %v", err)
		}
	})
}

// T23: the name of the service travels, and nothing else.
func TestRelayNamesItsService(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		streams := make(chan *mux.Stream, 2)
		_, g := muxtest.Pair(t, config(keep(streams)), config(nil))
		for _, name := range []string{"web", ""} {
			relay(t, g, name)
			if s := <-streams; string(s.Header()) != name || s.Kind() != mux.KindRelay {
				t.Errorf("%v stream for %q", s.Kind(), s.Header())
			} else {
				_ = s.Reset()
			}
		}
	})
}

func TestRelayRefusals(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		for status := mux.RelayStatus(0); status < 12; status++ {
			if status == mux.RelayAccepted {
				continue
			}
			_, g := muxtest.Pair(t, config(answer(status, func(s *mux.Stream) { _ = s.Close() })), config(nil))
			r := relay(t, g, "web")
			write(t, r, "GET / HTTP/1.1\r\n\r\n")
			for range 2 {
				_, err := r.Read(make([]byte, 10))
				refused, ok := errors.AsType[*mux.RelayError](err)
				if !ok || refused.Status != status || r.Await() != err {
					t.Errorf("status %v: %v", status, err)
				}
			}
		}
	})
}

// T19: an agent that says nothing is noticed within two seconds, also by
// somebody who set a later deadline.
func TestRelayWithoutAnswer(t *testing.T) {
	for name, deadline := range map[string]time.Duration{"no deadline": 0, "a late one": time.Hour} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				streams := make(chan *mux.Stream, 1)
				_, g := muxtest.Pair(t, config(keep(streams)), config(nil))
				r := relay(t, g, "web")
				defer func() { _ = (<-streams).Reset() }()
				if deadline > 0 {
					_ = r.SetReadDeadline(time.Now().Add(deadline))
				}
				start := time.Now()
				_, err := r.Read(make([]byte, 1))
				if !errors.Is(err, mux.ErrRelayNoAnswer) || time.Since(start) != mux.RelayAnswerTimeout {
					t.Errorf("%v after %v", err, time.Since(start))
				}
			})
		})
	}
}

// The caller's deadline counts, and does not spoil an answer that comes later.
func TestRelayDeadlineBeforeTheAnswer(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		streams := make(chan *mux.Stream, 1)
		_, g := muxtest.Pair(t, config(keep(streams)), config(nil))
		r := relay(t, g, "web")
		_ = r.SetDeadline(time.Now().Add(time.Second))
		if _, err := r.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read: %v", err)
		}
		s := <-streams
		_ = s.Answer(mux.RelayAccepted)
		write(t, s, "late")
		_ = r.SetDeadline(time.Time{})
		<-time.After(time.Minute)
		if got := readN(t, r, 4); string(got) != "late" {
			t.Errorf("read %q", got)
		}
		_ = s.Reset()
	})
}

func TestRelayEndsWithoutAnswer(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		for name, end := range map[string]struct {
			handle func(*mux.Stream)
			want   error
		}{
			"closed": {func(s *mux.Stream) { _ = s.Close() }, io.ErrUnexpectedEOF},
			"reset":  {func(s *mux.Stream) { _ = s.Reset() }, mux.ErrReset},
		} {
			_, g := muxtest.Pair(t, config(end.handle), config(nil))
			if err := relay(t, g, "web").Await(); !errors.Is(err, end.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// D14: an answer does not wait behind the bytes of other relays.
func TestAnswerOvertakesRelays(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		bulk := make(chan *mux.Stream, 64)
		late := make(chan *mux.Stream, 1)
		handle := func(s *mux.Stream) {
			if string(s.Header()) == "late" {
				late <- s
				return
			}
			_ = s.Answer(mux.RelayAccepted)
			bulk <- s
		}
		a, g := slowPipe()
		_, gateway := muxtest.Over(t, a, g, config(handle), config(nil))
		var streams []*mux.Stream
		for range cap(bulk) {
			r := relay(t, gateway, "bulk")
			s := <-bulk
			streams = append(streams, s)
			go func() { _, _ = io.Copy(s, zeros{}) }()
			go func() { _, _ = io.Copy(io.Discard, r) }()
		}
		r := relay(t, gateway, "late")
		s := <-late
		before := a.writes.Load()
		_ = s.Answer(mux.RelayAccepted)
		if err := r.Await(); err != nil {
			t.Fatalf("await: %v", err)
		}
		// Only what was queued already goes first.
		if frames := a.writes.Load() - before; frames > mux.RelayFrames+4 {
			t.Errorf("%d writes went first", frames)
		}
		for _, s := range append(streams, s) {
			_ = s.Reset()
		}
		<-time.After(time.Minute)
	})
}

// D14: relays that are opened all at once, on a connection that is slow in both
// directions and that others keep busy in both, are all answered in time.
func TestManyRelaysAtOnce(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		handle := func(s *mux.Stream) {
			_ = s.Answer(mux.RelayAccepted)
			go func() { _, _ = io.Copy(io.Discard, s) }()
			_, _ = io.Copy(s, zeros{})
		}
		a, g := net.Pipe()
		_, gateway := muxtest.Over(t, &slow{Conn: a}, &slow{Conn: g}, config(handle), config(nil))
		var relays []*mux.Relay
		for range 10 {
			r := relay(t, gateway, "")
			relays = append(relays, r)
			go func() { _, _ = io.Copy(r, zeros{}) }()
			go func() { _, _ = io.Copy(io.Discard, r) }()
		}
		<-time.After(10 * time.Second)
		answers := make(chan error, 100)
		opened := make(chan *mux.Relay, 100)
		for range cap(answers) {
			go func() {
				r, err := gateway.OpenRelay(context.Background(), "")
				if err == nil {
					opened <- r
					err = r.Await()
				}
				answers <- err
			}()
		}
		for range cap(answers) {
			if err := <-answers; err != nil {
				t.Errorf("a relay: %v", err)
			}
		}
		close(opened)
		for r := range opened {
			relays = append(relays, r)
		}
		for _, r := range relays {
			_ = r.Reset()
		}
		<-time.After(time.Minute)
	})
}
