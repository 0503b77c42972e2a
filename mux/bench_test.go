// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux_test

import (
	"context"
	"io"
	"runtime"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/mux"
	"github.com/sandbox-agent/sandbox-agent/mux/muxtest"
)

// BenchmarkIdleSession measures what both ends of a session over TLS keep on the
// heap and on stacks: new, and after each direction has carried 256 KiB over a
// stream that is closed again.
func BenchmarkIdleSession(b *testing.B) {
	for _, transfer := range []struct {
		name  string
		bytes int
	}{{"new", 0}, {"after256KiB", 256 << 10}} {
		b.Run(transfer.name, func(b *testing.B) {
			handler, sessions := muxtest.Accept(b, mux.Config{Handle: echo})
			gw := muxtest.Serve(b, handler)
			dialer := gw.Dialer(gw.HTTPS)
			before := inUse()
			var agents, gateways []*mux.Session
			for b.Loop() {
				s, err := dialer.Dial(context.Background(), mux.Config{Handle: echo})
				if err != nil {
					b.Fatal(err)
				}
				g := <-sessions
				if transfer.bytes > 0 {
					exchange(b, g, transfer.bytes)
				}
				agents, gateways = append(agents, s), append(gateways, g)
			}
			b.ReportMetric(float64(inUse()-before)/float64(len(agents)), "B/session")
			for _, s := range agents {
				_ = s.Close()
			}
			runtime.KeepAlive(gateways)
		})
	}
}

func exchange(b *testing.B, s *mux.Session, size int) {
	st, err := s.Open(context.Background(), mux.KindRelay, nil)
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		_, _ = st.Write(make([]byte, size))
		_ = st.CloseWrite()
	}()
	if n, err := io.Copy(io.Discard, st); n != int64(size) || err != nil {
		b.Fatal(n, err)
	}
	_ = st.Close()
}

func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// BenchmarkOpenEcho measures a stream from Open over one echoed byte to Close.
func BenchmarkOpenEcho(b *testing.B) {
	for _, transport := range []string{"unix", "https"} {
		b.Run(transport, func(b *testing.B) {
			_, g := muxtest.Connect(b, transport, mux.Config{Handle: echo}, mux.Config{})
			b.ReportAllocs()
			for b.Loop() {
				exchange(b, g, 1)
			}
		})
	}
}

// BenchmarkReport measures a message of 1 KB and its answer on a stream that
// stays, as reports and acknowledgements are.
func BenchmarkReport(b *testing.B) {
	a, _ := muxtest.Connect(b, "https", mux.Config{}, mux.Config{Handle: echo})
	st, err := a.Open(context.Background(), mux.KindControl, nil)
	if err != nil {
		b.Fatal(err)
	}
	p := make([]byte, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := st.Write(p); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(st, p); err != nil {
			b.Fatal(err)
		}
	}
	_ = st.Close()
}

// BenchmarkThroughput measures one stream that carries bytes to a reader.
func BenchmarkThroughput(b *testing.B) {
	for _, transport := range []string{"unix", "https"} {
		b.Run(transport, func(b *testing.B) {
			_, g := muxtest.Connect(b, transport, mux.Config{Handle: swallow}, mux.Config{})
			st, err := g.Open(context.Background(), mux.KindRelay, nil)
			if err != nil {
				b.Fatal(err)
			}
			p := make([]byte, 256<<10)
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := st.Write(p); err != nil {
					b.Fatal(err)
				}
			}
			_ = st.Close()
		})
	}
}
