// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

// BenchmarkService is the read behind GetService and every routed request:
// one service among 10,000.
func BenchmarkService(b *testing.B) {
	benchEngines(b, func(b *testing.B, s *store.Store) {
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			if _, err := s.Service(b.Context(), "default", name(n%100), "web-7"); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkServiceParallel is the same from several goroutines.
func BenchmarkServiceParallel(b *testing.B) {
	benchEngines(b, func(b *testing.B, s *store.Store) {
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			for n := 0; pb.Next(); n++ {
				if _, err := s.Service(b.Context(), "default", name(n%100), "web-7"); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}

// BenchmarkUpdateService is one committed change of a port, with its fsync.
func BenchmarkUpdateService(b *testing.B) {
	benchEngines(b, func(b *testing.B, s *store.Store) {
		svc, err := s.Service(b.Context(), "default", name(0), "web-7")
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			svc.Port++
			if _, _, err := s.Mutate(b.Context(), store.Request{}, func(tx store.Tx) (_ []byte, err error) {
				svc, err = tx.UpdateService(svc)
				return nil, err
			}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// benchEngines runs a benchmark on each engine that is there.
func benchEngines(b *testing.B, bench func(b *testing.B, s *store.Store)) {
	b.Run("sqlite", func(b *testing.B) { bench(b, openBench(b, sqliteEngine(b))) })
	b.Run("postgres", func(b *testing.B) { bench(b, openBench(b, postgresEngine(b))) })
}

// openBench opens a store of 100 sandboxes with 100 services each.
func openBench(b *testing.B, e engine) *store.Store {
	b.Helper()
	e.config.Logger = slog.New(slog.DiscardHandler)
	h := e.open(b)
	h.do(b, func(tx store.Tx) error {
		for i := range 100 {
			sb, err := tx.InsertSandbox(store.Sandbox{Workspace: "default", Name: name(i)})
			if err != nil {
				return err
			}
			for j := range 100 {
				if _, err := tx.InsertService(store.Service{SandboxID: sb.ID, Name: fmt.Sprintf("web-%d", j), Port: 80}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return h.Store
}
