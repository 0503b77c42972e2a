// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

// BenchmarkService is the read behind GetService and every routed request:
// one service among 10,000.
func BenchmarkService(b *testing.B) {
	s := openBench(b)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if _, err := s.Service(b.Context(), "default", fmt.Sprintf("sandbox-%d", n%100), "web-7"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkServiceParallel is the same from several goroutines.
func BenchmarkServiceParallel(b *testing.B) {
	s := openBench(b)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for n := 0; pb.Next(); n++ {
			if _, err := s.Service(b.Context(), "default", fmt.Sprintf("sandbox-%d", n%100), "web-7"); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkUpdateService is one committed change of a port, with its fsync.
func BenchmarkUpdateService(b *testing.B) {
	s := openBench(b)
	svc, err := s.Service(b.Context(), "default", "sandbox-0", "web-7")
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
}

// openBench opens a store of 100 sandboxes with 100 services each.
func openBench(b *testing.B) *store.Store {
	b.Helper()
	s, err := store.Open(context.Background(), store.Config{Dir: b.TempDir() + "/state"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	if _, _, err := s.Mutate(b.Context(), store.Request{}, func(tx store.Tx) ([]byte, error) {
		for i := range 100 {
			sb, err := tx.InsertSandbox(store.Sandbox{Workspace: "default", Name: fmt.Sprintf("sandbox-%d", i)})
			if err != nil {
				return nil, err
			}
			for j := range 100 {
				if _, err := tx.InsertService(store.Service{SandboxID: sb.ID, Name: fmt.Sprintf("web-%d", j), Port: 80}); err != nil {
					return nil, err
				}
			}
		}
		return nil, nil
	}); err != nil {
		b.Fatal(err)
	}
	return s
}
