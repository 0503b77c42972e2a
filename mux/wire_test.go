// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/mux"
	"github.com/sandbox-agent/sandbox-agent/mux/muxtest"
)

// recorder keeps what is written to a connection, write by write.
type recorder struct {
	net.Conn
	mu     sync.Mutex
	writes [][]byte
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	r.writes = append(r.writes, slices.Clone(p))
	r.mu.Unlock()
	return r.Conn.Write(p)
}

func (r *recorder) take() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	writes := r.writes
	r.writes = nil
	return writes
}

// frame is one frame of the wire, as docs and peers know it.
type frame struct {
	kind   byte
	flags  uint16
	stream uint32
	length int
}

// parse cuts a write into frames and reports whether it is made of whole ones.
func parse(p []byte) (frames []frame, whole bool) {
	for len(p) >= 12 {
		f := frame{p[1], binary.BigEndian.Uint16(p[2:]), binary.BigEndian.Uint32(p[4:]), int(binary.BigEndian.Uint32(p[8:]))}
		p = p[12:]
		if f.kind == 0 {
			if len(p) < f.length {
				return frames, false
			}
			p = p[f.length:]
		}
		frames = append(frames, f)
	}
	return frames, len(p) == 0
}

func header(kind byte, flags uint16, stream, length uint32) []byte {
	p := []byte{0, kind}
	p = binary.BigEndian.AppendUint16(p, flags)
	p = binary.BigEndian.AppendUint32(p, stream)
	return binary.BigEndian.AppendUint32(p, length)
}

// One write for each frame, also with resets in between: a write is a system
// call, and on TLS a record.
func TestFrameIsOneWrite(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		for _, s := range sides {
			a, g := net.Pipe()
			recorders := map[mux.Kind]*recorder{mux.KindControl: {Conn: a}, mux.KindRelay: {Conn: g}}
			opener, _ := s.pick(muxtest.Over(t, recorders[mux.KindControl], recorders[mux.KindRelay], config(swallow), config(swallow)))
			st := open(t, opener, s.kind, "svc")
			testkit.Wait()
			rec := recorders[s.kind]
			rec.take()
			write(t, st, "a report")
			if got := rec.take(); len(got) != 1 || len(got[0]) != 12+8 {
				t.Errorf("%s: %d writes for a small frame", s.name, len(got))
			}
			go func() {
				for range 100 {
					_ = open(t, opener, s.kind, "svc").Reset()
				}
			}()
			if _, err := st.Write(make([]byte, 10*mux.MaxChunk+1)); err != nil {
				t.Fatal(err)
			}
			testkit.Wait()
			data := 0
			for _, p := range rec.take() {
				frames, whole := parse(p)
				if !whole {
					t.Fatalf("%s: a write of %d bytes is not made of whole frames", s.name, len(p))
				}
				for _, f := range frames {
					if f.kind == 0 && f.length > mux.MaxChunk {
						t.Errorf("%s: frame of %d bytes", s.name, f.length)
					}
					if f.kind == 0 && f.length == mux.MaxChunk {
						data++
					}
				}
			}
			if data != 10 {
				t.Errorf("%s: %d full frames, want 10", s.name, data)
			}
		}
	})
}

// Any number of relay writers on a link that does not move: what the control
// stream writes goes out behind a few of their frames.
func TestControlOvertakesRelays(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		a, g := net.Pipe()
		rec := &recorder{Conn: g}
		link := muxtest.Faulty(rec)
		got := make(chan *mux.Stream, 1)
		agent, gateway := muxtest.Over(t, a, link, config(swallow), config(keep(got)))
		open(t, agent, mux.KindControl, "")
		control := <-got
		var relays []*mux.Stream
		for range 100 {
			relays = append(relays, open(t, gateway, mux.KindRelay, "svc"))
		}
		testkit.Wait()
		link.Stall()
		for _, st := range relays {
			go func() { _, _ = st.Write(make([]byte, 64<<10)) }()
		}
		testkit.Wait()
		go func() { _, _ = io.WriteString(control, "ack") }()
		testkit.Wait()
		rec.take()
		link.Resume()
		testkit.Wait()
		before, found := 0, false
		for _, p := range rec.take() {
			frames, _ := parse(p)
			for _, f := range frames {
				found = found || f.kind == 0 && f.length == 3
				if f.kind == 0 && !found {
					before++
				}
			}
		}
		if !found || before > mux.RelayFrames {
			t.Errorf("control frame found: %v, behind %d frames of relays; want at most %d", found, before, mux.RelayFrames)
		}
	})
}

// Relay streams whose readers have stopped do not keep the others from writing.
func TestStuckRelaysLeaveRelaysUntouched(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		_, g := muxtest.Pair(t, config(func(s *mux.Stream) {
			if string(s.Header()) == "reads" {
				swallow(s)
			}
		}), config(nil))
		for range 3 * mux.RelayFrames {
			st := open(t, g, mux.KindRelay, "stuck")
			go func() { _, _ = st.Write(make([]byte, 2*mux.Window)) }()
		}
		testkit.Wait()
		start := time.Now()
		st := open(t, g, mux.KindRelay, "reads")
		if _, err := st.Write(make([]byte, 4*mux.Window)); err != nil || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// What a peer may not send ends its session, and says so.
func TestProtocolViolationEndsTheSession(t *testing.T) {
	syn := func(stream uint32) []byte { return header(1, 1, stream, 0) }
	flood := bytes.Buffer{}
	flood.Write(syn(1))
	flood.Write(header(0, 0, 1, 3))
	flood.Write(mux.Opening(mux.KindControl, nil))
	for range 30 {
		flood.Write(header(0, 0, 1, 10_000))
		flood.Write(make([]byte, 10_000))
	}
	for name, p := range map[string][]byte{
		"text":                         []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		"zero bytes of another kind":   bytes.Repeat([]byte{0xff}, 64),
		"unknown type":                 header(4, 0, 1, 0),
		"ping":                         header(2, 1, 0, 1),
		"frame above the window":       header(0, 0, 1, mux.MaxWindow+1),
		"frame of 4 GiB for no stream": header(0, 0, 99, 0xffffffff),
		"stream 0":                     syn(0),
		"stream with our number":       syn(2),
		"stream opened twice":          append(syn(1), syn(1)...),
		"stream ended twice":           append(append(syn(1), header(1, 4, 1, 0)...), header(1, 4, 1, 0)...),
		"more than the window":         flood.Bytes(),
		"it gave up on us":             header(3, 0, 0, 1),
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				a, g := net.Pipe()
				s, err := mux.NewGatewaySession(g, config(func(*mux.Stream) {}))
				if err != nil {
					t.Fatal(err)
				}
				go func() { _, _ = io.Copy(io.Discard, a) }()
				var wg sync.WaitGroup
				wg.Go(func() { _, _ = a.Write(p) })
				select {
				case <-s.Done():
				case <-time.After(time.Minute):
					t.Fatal("the session lives on")
				}
				if !errors.Is(s.Err(), mux.ErrProtocol) {
					t.Errorf("%v, want ErrProtocol", s.Err())
				}
				_ = s.Close()
				_ = a.Close()
				wg.Wait()
			})
		})
	}
}

// A peer that opens streams and ends none loses its session. Not in a bubble:
// there, a thousand timers that fire in one instant can crash the race detector
// (Go 1.26).
func TestTooManyStreamsEndTheSession(t *testing.T) {
	a, g := net.Pipe()
	s, err := mux.NewGatewaySession(g, config(func(*mux.Stream) {}))
	if err != nil {
		t.Fatal(err)
	}
	const batch = 100
	answers := make(chan struct{}, batch)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(answers)
		for p := make([]byte, 12); ; answers <- struct{}{} {
			if _, err := io.ReadFull(a, p); err != nil {
				return
			}
		}
	})
	// Each stream is answered by a frame. Without a wait for these, more streams
	// than may wait would be open, and be reset.
	for i := range uint32(mux.MaxKept + 1) {
		p := append(header(1, 1, 2*i+1, 0), header(0, 0, 2*i+1, 3)...)
		if _, err := a.Write(append(p, mux.Opening(mux.KindControl, nil)...)); err != nil {
			t.Fatalf("ended at stream %d: %v", i, s.Err())
		}
		if i >= batch {
			<-answers
		}
	}
	limit := time.After(10 * time.Second)
	for open := true; open; {
		select {
		case _, open = <-answers:
		case <-limit:
			t.Fatal("the session lives on")
		}
	}
	if <-s.Done(); !errors.Is(s.Err(), mux.ErrProtocol) {
		t.Errorf("%v, want ErrProtocol", s.Err())
	}
	_, _ = s.Close(), a.Close()
	wg.Wait()
}

// A violation costs nobody else anything.
func TestProtocolViolationEndsOnlyItsSession(t *testing.T) {
	handler, sessions := muxtest.Accept(t, config(echo))
	gw := muxtest.Serve(t, handler)
	good, err := gw.Dialer(gw.Unix).Dial(context.Background(), config(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer good.Close()
	<-sessions
	control := open(t, good, mux.KindControl, "")
	bad, err := net.Dial("unix", gw.Unix[len("unix:"):])
	if err != nil {
		t.Fatal(err)
	}
	defer bad.Close()
	write(t, bad, upgradeRequest+"and then no frames at all")
	hurt := <-sessions
	<-hurt.Done()
	if !errors.Is(hurt.Err(), mux.ErrProtocol) {
		t.Errorf("%v, want ErrProtocol", hurt.Err())
	}
	write(t, control, "ping")
	readN(t, control, 4)
	if good.Err() != nil {
		t.Errorf("the other session: %v", good.Err())
	}
}

// Whatever a peer sends, the session ends as it would if it had come in one
// piece, and nothing is left of it.
func FuzzFrames(f *testing.F) {
	f.Add(append(header(1, syn, 1, 0), header(0, fin, 1, 3)...), 5)
	f.Add(append(header(1, syn, 1, 5), append(header(0, 0, 1, 3), mux.Opening(mux.KindControl, nil)...)...), 1)
	f.Add(append(header(0, syn|fin, 1, 3), mux.Opening(mux.KindControl, nil)...), 12)
	f.Add(header(0, 0, 1, mux.MaxWindow+1), 7)
	f.Add(append(header(3, 0, 0, 0), header(1, syn|rst, 3, 0)...), 3)
	f.Add(append(header(1, ack|rst, 2, 1<<31), header(2, 0, 0, 0)...), 30)
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), 3)
	f.Fuzz(func(t *testing.T, p []byte, piece int) {
		testkit.Bubble(t, func(t *testing.T) {
			if whole, cut := verdict(t, p, len(p)+1), verdict(t, p, max(1, piece)); whole != cut {
				t.Errorf("whole: %v, cut: %v", whole, cut)
			}
		})
	})
}

// verdict sends a gateway some bytes, in pieces, and then the end.
func verdict(t *testing.T, p []byte, piece int) string {
	a, g := net.Pipe()
	s, err := mux.NewGatewaySession(g, mux.Config{Handle: func(st *mux.Stream) { echo(st) }})
	if err != nil {
		t.Fatal(err)
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, a)
	}()
	for part := range slices.Chunk(p, piece) {
		if _, err := a.Write(part); err != nil {
			break
		}
	}
	testkit.Wait() // all of it was understood
	_ = a.Close()
	<-s.Done()
	if s.Close() != nil || mux.Kept(s) != 0 {
		t.Errorf("streams are kept: %d", mux.Kept(s))
	}
	<-drained
	if errors.Is(s.Err(), mux.ErrProtocol) {
		return s.Err().Error()
	}
	return "ended"
}

type opening struct{ *bytes.Reader }

func (opening) SetReadDeadline(time.Time) error { return nil }

func FuzzOpening(f *testing.F) {
	f.Add(mux.Opening(mux.KindRelay, []byte("svc")))
	f.Add(mux.Opening(mux.KindControl, nil))
	f.Add([]byte{1, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, p []byte) {
		kind, header, err := mux.ReadOpening(opening{bytes.NewReader(p)})
		if err != nil {
			return
		}
		if len(header) > mux.MaxHeader {
			t.Errorf("header of %d bytes", len(header))
		}
		if again := mux.Opening(kind, header); !bytes.HasPrefix(p, again) {
			t.Errorf("%x was read as %x", p, again)
		}
	})
}
