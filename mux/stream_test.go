// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/mux"
	"github.com/sandbox-agent/sandbox-agent/mux/muxtest"
)

// each runs a body over all transports and for both openers. The body gets the
// opener, the peer, and the streams that the peer got.
func each(t *testing.T, body func(t *testing.T, kind mux.Kind, opener, peer *mux.Session, got chan *mux.Stream)) {
	muxtest.Each(t, func(t *testing.T, connect muxtest.Connector) {
		for _, s := range sides {
			t.Run(s.name, func(t *testing.T) {
				got := make(chan *mux.Stream, 1)
				cfg := config(keep(got))
				opener, peer := s.pick(connect(t, cfg, cfg))
				body(t, s.kind, opener, peer, got)
			})
		}
	})
}

func TestStreamCarriesKindHeaderAndBytes(t *testing.T) {
	each(t, func(t *testing.T, kind mux.Kind, opener, peer *mux.Session, got chan *mux.Stream) {
		header := strings.Repeat("h", mux.MaxHeader)
		out := open(t, opener, kind, header)
		in := <-got
		if in.Kind() != kind || string(in.Header()) != header || out.Kind() != kind || string(out.Header()) != header {
			t.Fatalf("kind %v, header of %d bytes", in.Kind(), len(in.Header()))
		}
		write(t, out, "there")
		write(t, in, "and back")
		if s := readN(t, in, 5); string(s) != "there" {
			t.Errorf("peer read %q", s)
		}
		if s := readN(t, out, 8); string(s) != "and back" {
			t.Errorf("opener read %q", s)
		}
		if opener.NumStreams() != 1 || peer.NumStreams() != 1 {
			t.Errorf("streams %d and %d, want 1 and 1", opener.NumStreams(), peer.NumStreams())
		}
		_, _ = out.Close(), in.Close()
		if opener.NumStreams() != 0 || peer.NumStreams() != 0 {
			t.Errorf("streams %d and %d after Close", opener.NumStreams(), peer.NumStreams())
		}
	})
}

// T21: the end of one direction leaves the other as it is.
func TestHalfCloseKeepsTheReply(t *testing.T) {
	each(t, func(t *testing.T, kind mux.Kind, opener, _ *mux.Session, got chan *mux.Stream) {
		out := open(t, opener, kind, "svc")
		in := <-got
		for _, dir := range [][2]*mux.Stream{{out, in}, {in, out}} {
			write(t, dir[0], "the question")
			if err := dir[0].CloseWrite(); err != nil {
				t.Fatalf("CloseWrite: %v", err)
			}
			if _, err := dir[0].Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
				t.Errorf("write after CloseWrite: %v", err)
			}
			if p, err := io.ReadAll(dir[1]); err != nil || string(p) != "the question" {
				t.Fatalf("read %q, %v", p, err)
			}
		}
		_, _ = out.Close(), in.Close()
	})
}

func TestStreamsCarryMuchBothWays(t *testing.T) {
	const size = 3<<20 + 17
	each(t, func(t *testing.T, kind mux.Kind, opener, _ *mux.Session, got chan *mux.Stream) {
		out := open(t, opener, kind, "svc")
		go echo(<-got)
		payload := make([]byte, size)
		src := rand.NewChaCha8([32]byte{1})
		_, _ = src.Read(payload)
		go func() {
			_, _ = out.Write(payload)
			_ = out.CloseWrite()
		}()
		sum := sha256.New()
		if n, err := io.Copy(sum, out); n != size || err != nil {
			t.Fatalf("got %d of %d bytes, %v", n, size, err)
		}
		if want := sha256.Sum256(payload); !bytes.Equal(sum.Sum(nil), want[:]) {
			t.Error("the bytes came back different")
		}
		_ = out.Close()
	})
}

func TestCloseLetsWhatWasWrittenArrive(t *testing.T) {
	each(t, func(t *testing.T, kind mux.Kind, opener, _ *mux.Session, got chan *mux.Stream) {
		out := open(t, opener, kind, "svc")
		in := <-got
		write(t, out, "last words")
		_ = out.Close()
		if p, err := io.ReadAll(in); err != nil || string(p) != "last words" {
			t.Fatalf("read %q, %v", p, err)
		}
		if _, err := out.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read after Close: %v", err)
		}
		if _, err := out.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("write after Close: %v", err)
		}
		if err := out.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
		_ = in.Close()
	})
}

// A broken stream is never taken for a complete one.
func TestResetIsNoCleanEnd(t *testing.T) {
	each(t, func(t *testing.T, kind mux.Kind, opener, peer *mux.Session, got chan *mux.Stream) {
		out := open(t, opener, kind, "svc")
		in := <-got
		_ = out.Reset()
		if _, err := io.ReadAll(in); !errors.Is(err, mux.ErrReset) {
			t.Errorf("read: %v, want ErrReset", err)
		}
		if _, err := in.Write([]byte("x")); !errors.Is(err, mux.ErrReset) {
			t.Errorf("write: %v, want ErrReset", err)
		}
		_ = in.Close()
		eventually(t, "both ends forget the stream", func() bool { return mux.Kept(opener) == 0 && mux.Kept(peer) == 0 })
	})
}

func TestSessionEndIsNoCleanEndOfAStream(t *testing.T) {
	each(t, func(t *testing.T, kind mux.Kind, opener, peer *mux.Session, got chan *mux.Stream) {
		out := open(t, opener, kind, "svc")
		in := <-got
		write(t, out, "half of it")
		readN(t, in, 10)
		read := make(chan error, 1)
		go func() {
			_, err := in.Read(make([]byte, 1))
			read <- err
		}()
		_ = opener.Close()
		if err := <-read; !errors.Is(err, mux.ErrSessionClosed) || errors.Is(err, io.EOF) && err == io.EOF {
			t.Errorf("read: %v, want ErrSessionClosed", err)
		}
		<-peer.Done()
		if _, err := in.Write([]byte("x")); !errors.Is(err, mux.ErrSessionClosed) {
			t.Errorf("write: %v, want ErrSessionClosed", err)
		}
	})
}

// Whichever way streams end, neither multiplexer keeps them.
func TestNoStreamIsKept(t *testing.T) {
	endings := map[string]func(out, in *mux.Stream){
		"both close":         func(out, in *mux.Stream) { _, _ = out.Close(), in.Close() },
		"peer closes on EOF": func(out, in *mux.Stream) { _ = out.Close(); _, _ = io.ReadAll(in); _ = in.Close() },
		"both reset":         func(out, in *mux.Stream) { _, _ = out.Reset(), in.Reset() },
		"reset after the end": func(out, in *mux.Stream) {
			_ = out.CloseWrite()
			_, _ = io.ReadAll(in)
			_ = out.Reset()
			_ = in.Close()
		},
		"unread data": func(out, in *mux.Stream) { _, _ = in.Write(make([]byte, 1000)); _, _ = out.Close(), in.Close() },
		"peer goes on sending": func(out, in *mux.Stream) {
			_ = out.Close()
			for _, err := in.Write(make([]byte, 1000)); err == nil; _, err = in.Write(make([]byte, 1000)) {
			}
			_ = in.Close()
		},
		"peer is silent": func(out, in *mux.Stream) {
			_ = out.Close()
			_, _ = io.ReadAll(in)
			_ = in.SetReadDeadline(time.Now().Add(2 * time.Minute))
			for err := error(nil); !errors.Is(err, mux.ErrReset); _, err = in.Read(make([]byte, 1)) {
				<-time.After(time.Second)
			}
			_ = in.Close()
		},
	}
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				for _, s := range sides {
					got := make(chan *mux.Stream, 1)
					cfg := config(keep(got))
					opener, peer := s.pick(muxtest.Pair(t, cfg, cfg))
					for range 20 {
						out := open(t, opener, s.kind, "svc")
						end(out, <-got)
					}
					testkit.Wait()
					if a, b := mux.Kept(opener), mux.Kept(peer); a != 0 || b != 0 {
						t.Errorf("%s: %d and %d streams are kept", s.name, a, b)
					}
				}
			})
		})
	}
}

func TestDeadlines(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		for _, s := range sides {
			got := make(chan *mux.Stream, 1)
			cfg := config(keep(got))
			opener, _ := s.pick(muxtest.Pair(t, cfg, cfg))
			out := open(t, opener, s.kind, "svc")
			in := <-got
			for name, op := range map[string]func() error{
				"read": func() error {
					_ = out.SetReadDeadline(time.Now().Add(3 * time.Second))
					_, err := out.Read(make([]byte, 1))
					return err
				},
				"write to a peer that does not read": func() error {
					_ = out.SetWriteDeadline(time.Now().Add(3 * time.Second))
					n, err := out.Write(make([]byte, 2*mux.Window))
					if n < mux.Window/2 {
						t.Errorf("%s: wrote only %d bytes", s.name, n)
					}
					return err
				},
				"read, deadline set meanwhile": func() error {
					_ = out.SetReadDeadline(time.Time{})
					time.AfterFunc(3*time.Second, func() { _ = out.SetReadDeadline(time.Now()) })
					_, err := out.Read(make([]byte, 1))
					return err
				},
				"write, deadline set meanwhile": func() error {
					_ = out.SetWriteDeadline(time.Time{})
					time.AfterFunc(3*time.Second, func() { _ = out.SetWriteDeadline(time.Now()) })
					_, err := out.Write(make([]byte, 2*mux.Window))
					return err
				},
			} {
				start := time.Now()
				err := op()
				var timeout net.Error
				if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
					t.Errorf("%s: %s: %v", s.name, name, err)
				}
				if took := time.Since(start); took != 3*time.Second {
					t.Errorf("%s: %s took %v", s.name, name, took)
				}
				// The next operation finds the window and the deadlines as new.
				go func() {
					_ = in.SetReadDeadline(time.Now().Add(time.Second))
					_, _ = io.Copy(io.Discard, in)
				}()
				<-time.After(2 * time.Second)
			}
			if _, err := out.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: write after its deadline: %v", s.name, err)
			}
			_ = out.SetDeadline(time.Time{})
			write(t, out, "again")
		}
	})
}

func TestCloseWakesReaderAndWriter(t *testing.T) {
	for _, end := range []struct {
		name string
		do   func(*mux.Stream)
	}{
		{"Close", func(s *mux.Stream) { _ = s.Close() }},
		{"Reset", func(s *mux.Stream) { _ = s.Reset() }},
	} {
		t.Run(end.name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				for _, s := range sides {
					got := make(chan *mux.Stream, 1)
					cfg := config(keep(got))
					opener, _ := s.pick(muxtest.Pair(t, cfg, cfg))
					out := open(t, opener, s.kind, "svc")
					in := <-got
					errs := make(chan error, 2)
					go func() { _, err := out.Write(make([]byte, 2*mux.Window)); errs <- err }()
					go func() { _, err := out.Read(make([]byte, 1)); errs <- err }()
					testkit.Wait()
					start := time.Now()
					end.do(out)
					for range 2 {
						if err := <-errs; !errors.Is(err, net.ErrClosed) {
							t.Errorf("%s: %v, want net.ErrClosed", s.name, err)
						}
					}
					if took := time.Since(start); took != 0 {
						t.Errorf("%s: took %v", s.name, took)
					}
					_ = in.Close()
				}
			})
		})
	}
}

// Writers that wait for their turn on a link that has stalled obey a deadline
// that is set meanwhile, and Close.
func TestDeadlineInTheQueue(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		a, g := net.Pipe()
		link := muxtest.Faulty(g)
		_, gateway := muxtest.Over(t, a, link, config(swallow), config(nil))
		const writers = 20
		var sts []*mux.Stream
		for range writers {
			sts = append(sts, open(t, gateway, mux.KindRelay, "svc"))
		}
		testkit.Wait()
		link.Stall()
		start := time.Now()
		errs := make(chan error, writers)
		for _, st := range sts {
			go func() { _, err := st.Write(make([]byte, 100)); errs <- err }()
		}
		testkit.Wait()
		for _, st := range sts[:writers/2] {
			_ = st.SetWriteDeadline(start.Add(3 * time.Second))
		}
		for _, st := range sts[writers/2:] {
			_ = st.Close()
		}
		testkit.Wait()
		if n := len(errs); n < writers/2-mux.RelayFrames {
			t.Errorf("Close woke %d of %d writers", n, writers/2)
		}
		<-time.After(4 * time.Second)
		if n := len(errs); n != writers-mux.RelayFrames {
			t.Errorf("%d of %d writers are back, want all but the %d whose frames are queued", n, writers, mux.RelayFrames)
		}
		link.Resume()
		testkit.Wait()
		expired, closed, done := 0, 0, 0
		for range writers {
			switch err := <-errs; {
			case errors.Is(err, os.ErrDeadlineExceeded):
				expired++
			case errors.Is(err, net.ErrClosed):
				closed++
			case err == nil:
				done++
			}
		}
		if expired+closed+done != writers || done > mux.RelayFrames {
			t.Errorf("%d expired, %d closed, %d done", expired, closed, done)
		}
	})
}

// Streams that were closed and whose peer does not end them are waited for, but
// not any number of them.
func TestClosedStreamsDoNotPileUp(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		got := make(chan *mux.Stream, 400)
		_, g := muxtest.Pair(t, config(keep(got)), config(nil))
		const total = 300
		for range total {
			st := open(t, g, mux.KindRelay, "svc")
			testkit.Wait()
			_ = st.Close()
			testkit.Wait()
		}
		reset := 0
		for range total {
			st := <-got
			_, _ = io.ReadAll(st) // to the end
			if _, err := st.Write([]byte("x")); errors.Is(err, mux.ErrReset) {
				reset++
			}
			_ = st.Close()
		}
		if want := total - 256; reset != want {
			t.Errorf("%d were reset at once, want %d", reset, want)
		}
	})
}

// A stream that was busy once and is quiet now holds no great buffer.
func TestQuietStreamIsSmall(t *testing.T) {
	const streams, burst = 16, mux.Window - 100
	for _, size := range []int{32 << 10, 100} { // of reads
		start, took := make(chan struct{}), make(chan struct{}, streams)
		_, g := muxtest.Pair(t, config(func(s *mux.Stream) {
			<-start
			for n, p := 0, make([]byte, size); ; {
				m, err := s.Read(p)
				if n += m; n == burst {
					took <- struct{}{}
				}
				if err != nil {
					_ = s.Close()
					return
				}
			}
		}), config(nil))
		before := inUse()
		var held []*mux.Stream
		for range streams {
			st := open(t, g, mux.KindRelay, "svc")
			if _, err := st.Write(make([]byte, burst)); err != nil {
				t.Fatal(err)
			}
			held = append(held, st)
		}
		if full := (int64(inUse()) - int64(before)) / streams; full < burst {
			t.Fatalf("a stream with %d bytes unread holds only %d", burst, full)
		}
		close(start)
		for range streams {
			<-took
		}
		eventually(t, "quiet streams hold less than 64 KiB", func() bool {
			return (int64(inUse())-int64(before))/streams < 64<<10
		})
		for _, st := range held {
			_ = st.Close()
		}
	}
}

func TestOpenRefusesWhatIsNotAllowed(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		a, g := muxtest.Pair(t, config(echo), config(echo))
		ctx, cancel := context.WithCancelCause(context.Background())
		because := errors.New("because")
		cancel(because)
		for name, tc := range map[string]struct {
			err  error
			want error
		}{
			"agent opens a relay":     {second(a.Open(context.Background(), mux.KindRelay, nil)), mux.ErrKind},
			"gateway opens a control": {second(g.Open(context.Background(), mux.KindControl, nil)), mux.ErrKind},
			"no such kind":            {second(g.Open(context.Background(), 9, nil)), mux.ErrKind},
			"header too large":        {second(g.Open(context.Background(), mux.KindRelay, make([]byte, mux.MaxHeader+1))), mux.ErrHeaderTooLarge},
			"context over":            {second(g.Open(ctx, mux.KindRelay, nil)), because},
		} {
			if !errors.Is(tc.err, tc.want) {
				t.Errorf("%s: %v, want %v", name, tc.err, tc.want)
			}
		}
		_ = g.Close()
		if _, err := g.Open(context.Background(), mux.KindRelay, nil); !errors.Is(err, mux.ErrSessionClosed) {
			t.Errorf("open after Close: %v", err)
		}
		<-a.Done()
		if _, err := a.Open(context.Background(), mux.KindControl, nil); !errors.Is(err, mux.ErrSessionClosed) {
			t.Errorf("open after the peer's Close: %v", err)
		}
	})
}

func second(_ *mux.Stream, err error) error { return err }

// eventually waits in real time for something that no channel tells.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(5 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within 5 s: %s", what)
		}
	}
}
