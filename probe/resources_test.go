// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestDescriptorsAreFlat holds T03 and T30: a thousand attempts against peers
// of all kinds leave no descriptor and no goroutine.
func TestDescriptorsAreFlat(t *testing.T) {
	h := NewHTTP("sandbox-agent/test")
	targets := []Target{{Port: freePort(t)}}
	for _, p := range []peer{
		says("HTTP/1.1 200 OK\r\n\r\n"),
		says(""),
		resets,
		repeats("HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("x", 4096)),
		repeats("HTTP/1.1 200 OK\r\n", "X: "+strings.Repeat("x", 4000)+"\r\n"),
	} {
		l, port := listen(t, "127.0.0.1")
		serve(t, l, p)
		targets = append(targets, Target{Port: port})
	}
	burst := func(n int) {
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() { h.Attempt(t.Context(), targets[i%len(targets)]) })
			if i%50 == 49 {
				wg.Wait()
			}
		}
		wg.Wait()
	}
	burst(100)
	descriptors, goroutines := settled(t, 1000, 1000)
	burst(1000)
	settled(t, descriptors, goroutines)
}

// settled waits until there are at most so many descriptors and goroutines:
// the peers, in this process too, take a moment to hang up.
func settled(t *testing.T, maxDescriptors, maxGoroutines int) (descriptors, goroutines int) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(5 * time.Second); ; <-tick.C {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		wasDescriptors, wasGoroutines := descriptors, goroutines
		descriptors, goroutines = len(entries), runtime.NumGoroutine()
		steady := descriptors == wasDescriptors && goroutines == wasGoroutines
		if steady && descriptors <= maxDescriptors && goroutines <= maxGoroutines {
			return descriptors, goroutines
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d descriptors and %d goroutines, want at most %d and %d",
				descriptors, goroutines, maxDescriptors, maxGoroutines)
		}
	}
}

// TestMemoryIsFlat holds T30: twenty targets with endless headers cost no more
// memory than any others.
func TestMemoryIsFlat(t *testing.T) {
	h := NewHTTP("sandbox-agent/test")
	l, port := listen(t, "127.0.0.1")
	serve(t, l, repeats("HTTP/1.1 200 OK\r\n", "X: "+strings.Repeat("x", 4000)+"\r\n"))
	round := func() {
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if a := h.Attempt(t.Context(), Target{Port: port}); a.Reason != HeadersTooLarge {
					t.Errorf("attempt = %+v", a)
				}
			})
		}
		wg.Wait()
	}
	round()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const rounds = 5
	for range rounds {
		round()
	}
	runtime.ReadMemStats(&after)
	// The peer's part is in it: 4 KiB for the request, 4 KiB for the answer.
	if each := (after.TotalAlloc - before.TotalAlloc) / (rounds * 20); each > 24<<10 {
		t.Errorf("%d bytes allocated for each attempt", each)
	}
}

// TestNoDescriptors: an attempt without a socket is not held against anybody.
func TestNoDescriptors(t *testing.T) {
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	l, port := listen(t, "127.0.0.1")
	h := NewHTTP("sandbox-agent/test")
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	a := h.Attempt(t.Context(), Target{Port: port})
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if a.Outcome != Inconclusive || a.Reason != NoResources {
		t.Errorf("attempt = %+v", a)
	}
	serve(t, l, says("HTTP/1.1 200 OK\r\n\r\n"))
	if a := h.Attempt(t.Context(), Target{Port: port}); a.Outcome != Pass {
		t.Errorf("afterwards: %+v", a)
	}
}
