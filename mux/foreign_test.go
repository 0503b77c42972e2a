// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/mux"
)

// engine starts one end of a session with the multiplexer that others use, and
// ours at the other.
func engine(t *testing.T, ours side, cfg mux.Config) (*yamux.Session, *mux.Session) {
	t.Helper()
	start, session := yamux.Server, mux.NewAgentSession
	if ours.kind == mux.KindRelay {
		start, session = yamux.Client, mux.NewGatewaySession
	}
	yc := yamux.DefaultConfig()
	yc.EnableKeepAlive, yc.LogOutput, yc.StreamOpenTimeout, yc.StreamCloseTimeout = false, io.Discard, 0, 0
	yc.AcceptBacklog = mux.Backlog
	a, g := net.Pipe()
	theirs, err := start(a, yc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := session(g, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = theirs.Close(), s.Close() })
	return theirs, s
}

// Every part of the protocol with an engine of another make, which opens streams
// and which accepts them: much at once both ways, the end of each direction by
// itself, and a reset.
func TestForeignEngine(t *testing.T) {
	payload := make([]byte, 5<<20+3)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(payload)
	exchange := func(t *testing.T, out io.ReadWriter, end func() error) {
		t.Helper()
		go func() {
			_, _ = out.Write(payload)
			_ = end()
		}()
		if got, err := io.ReadAll(out); err != nil || !bytes.Equal(got, payload) {
			t.Errorf("%d of %d bytes came back, %v", len(got), len(payload), err)
		}
	}
	for _, ours := range sides {
		t.Run(ours.name, func(t *testing.T) {
			theirs, s := engine(t, ours, config(echo))
			go func() {
				for st, err := theirs.AcceptStream(); err == nil; st, err = theirs.AcceptStream() {
					go func() {
						_, _ = io.ReadFull(st, make([]byte, len(mux.Opening(ours.kind, []byte("svc")))))
						_, _ = io.Copy(st, st)
						_ = st.Close()
					}()
				}
			}()
			for range 3 {
				st := open(t, s, ours.kind, "svc")
				exchange(t, st, st.CloseWrite)
				_ = st.Close()
				in, err := theirs.OpenStream()
				if err != nil {
					t.Fatal(err)
				}
				other := mux.KindRelay
				if ours.kind == mux.KindRelay {
					other = mux.KindControl
				}
				_, _ = in.Write(mux.Opening(other, nil))
				exchange(t, in, in.Close)
			}
			st := open(t, s, ours.kind, "svc")
			write(t, st, "x")
			readN(t, st, 1)
			_ = st.Reset()
			eventually(t, "both forget all streams", func() bool { return mux.Kept(s) == 0 && theirs.NumStreams() == 0 })
			if s.Err() != nil {
				t.Errorf("ended: %v", s.Err())
			}
		})
	}
}

// Flags of a frame.
const (
	syn = 1 << iota
	ack
	fin
	rst
)

// prompt is a connection whose peer answers an opening before whoever sent it
// goes on.
type prompt struct {
	net.Conn
	answer func(stream uint32)
}

func (p *prompt) Write(b []byte) (int, error) {
	frames, _ := parse(b)
	n, err := p.Conn.Write(b)
	for _, f := range frames {
		if f.kind == 1 && f.flags&syn != 0 {
			p.answer(f.stream)
		}
	}
	return n, err
}

// opened opens a relay of a gateway whose agent has answered with a frame before
// Open knows of the stream.
func opened(t *testing.T, answer func(stream uint32) []byte) *mux.Stream {
	t.Helper()
	a, g := net.Pipe()
	conn := &prompt{Conn: g, answer: func(stream uint32) {
		_, _ = a.Write(answer(stream))
		_, _ = a.Write(header(1, 0, 98, 0)) // taken means that the one before was understood
	}}
	go func() { _, _ = io.Copy(io.Discard, a) }()
	s, err := mux.NewGatewaySession(conn, config(nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = s.Close(), a.Close() })
	return open(t, s, mux.KindRelay, "svc")
}

// What the peer says of a stream counts from the frame that opens it.
func TestPromptPeer(t *testing.T) {
	const more = 1 << 20
	all := make([]byte, mux.Window+more-len(mux.Opening(mux.KindRelay, []byte("svc"))))
	check := func(t *testing.T, st *mux.Stream) {
		t.Helper()
		_ = st.SetWriteDeadline(time.Now().Add(time.Minute))
		if n, err := st.Write(all); n != len(all) || err != nil {
			t.Errorf("%d of %d bytes, %v", n, len(all), err)
		}
	}
	t.Run("reset", func(t *testing.T) {
		testkit.Bubble(t, func(t *testing.T) {
			st := opened(t, func(stream uint32) []byte { return header(1, rst, stream, 0) })
			_ = st.SetWriteDeadline(time.Now().Add(time.Minute))
			if _, err := st.Write(all); !errors.Is(err, mux.ErrReset) {
				t.Errorf("%v, want ErrReset", err)
			}
		})
	})
	t.Run("a greater window of an agent", func(t *testing.T) {
		testkit.Bubble(t, func(t *testing.T) {
			check(t, opened(t, func(stream uint32) []byte { return header(1, ack, stream, more) }))
		})
	})
	t.Run("a greater window of a gateway", func(t *testing.T) {
		testkit.Bubble(t, func(t *testing.T) {
			a, g := net.Pipe()
			got := make(chan *mux.Stream, 1)
			s, err := mux.NewAgentSession(a, config(keep(got)))
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.Copy(io.Discard, g) }()
			first := mux.Opening(mux.KindRelay, []byte("svc"))
			_, _ = g.Write(header(1, syn, 2, more))
			_, _ = g.Write(append(header(0, 0, 2, uint32(len(first))), first...))
			check(t, <-got)
			_, _ = s.Close(), g.Close()
		})
	})
}

// A peer that neither ends streams nor answers a reset, as an engine of another
// make does, cannot make the session remember them, nor what it sent on them.
func TestStreamsGivenUpAreForgotten(t *testing.T) {
	late := func(a net.Conn, stream uint32) { _, _ = a.Write(header(1, ack, stream, 0)) }
	tests := map[string]struct {
		prompt, late func(a net.Conn, stream uint32)
		giveUp       func(*mux.Stream) error
	}{
		"reset":              {late, nil, (*mux.Stream).Reset},
		"closed":             {late, nil, (*mux.Stream).Close},
		"accepted afterward": {nil, late, (*mux.Stream).Reset},
		"in the middle of a frame": {func(a net.Conn, stream uint32) {
			late(a, stream)
			_, _ = a.Write(header(0, 0, stream, 1000)[:7])
			_, _ = a.Write(header(0, 0, stream, 1000)[7:])
			_, _ = a.Write(make([]byte, 400))
		}, func(a net.Conn, _ uint32) { _, _ = a.Write(make([]byte, 600)) }, (*mux.Stream).Reset},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				a, g := net.Pipe()
				s, err := mux.NewGatewaySession(g, config(nil))
				if err != nil {
					t.Fatal(err)
				}
				go func() { _, _ = io.Copy(io.Discard, a) }()
				const rounds = 3 * mux.DefaultMaxStreams
				for i := range uint32(rounds) {
					st, err := s.Open(context.Background(), mux.KindRelay, []byte("svc"))
					if err != nil {
						t.Fatalf("round %d: %v", i, err)
					}
					if tc.prompt != nil {
						tc.prompt(a, 2*i+2)
					}
					_ = tc.giveUp(st)
					testkit.Wait()
					if tc.late != nil {
						tc.late(a, 2*i+2)
					}
				}
				testkit.Advance(2 * time.Minute) // nor is one waited for longer
				_, _ = a.Write(header(1, 0, 99999998, 0))
				_, _ = a.Write(header(1, 0, 99999998, 0))
				testkit.Wait()
				if kept := mux.Kept(s); kept != 0 || s.Err() != nil {
					t.Errorf("%d of %d streams are remembered, %v", kept, rounds, s.Err())
				}
				_, _ = s.Close(), a.Close()
			})
		})
	}
}
