// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"
)

// drain has the peer use up the window and the reader take it, in pieces, and
// each piece takes as long as told.
func drain(t *testing.T, w *receiveWindow, now *time.Time, each time.Duration, extra *atomic.Int64) {
	t.Helper()
	const piece = 4 << 10
	for range w.room / piece {
		if !w.admit(piece) {
			t.Fatalf("no room for %d bytes, of %d", piece, w.room)
		}
		*now = now.Add(each)
		if w.read(piece) {
			w.give(*now, extra)
		}
	}
}

func TestWindowFollowsItsReader(t *testing.T) {
	const quick, steady, slow = time.Microsecond, time.Millisecond, time.Second
	var extra atomic.Int64
	w, now := newReceiveWindow(), time.Now()
	for _, step := range []struct {
		each time.Duration // for 4 KiB
		size int           // afterwards
	}{
		{steady, window}, {quick, maxWindow}, {quick, maxWindow}, {steady, maxWindow}, {slow, window}, {slow, window}, {steady, window},
	} {
		for range 4 {
			drain(t, &w, &now, step.each, &extra)
		}
		if w.size != step.size || int(extra.Load()) != w.size-window {
			t.Fatalf("after 4 KiB in %v each, the window is %d and the session's extra %d; want %d", step.each, w.size, extra.Load(), step.size)
		}
	}
	drain(t, &w, &now, quick, &extra)
	if w.end(&extra); extra.Load() != 0 {
		t.Errorf("%d bytes are not given back", extra.Load())
	}
}

// A session has so much to give, and streams that get nothing have what all have.
func TestWindowsShareTheirExtra(t *testing.T) {
	var extra atomic.Int64
	total := 0
	for range 100 {
		w, now := newReceiveWindow(), time.Now()
		for range 5 {
			drain(t, &w, &now, time.Microsecond, &extra)
		}
		total += w.size - window
	}
	if total > maxExtra || total < maxExtra-window || int(extra.Load()) != total {
		t.Errorf("100 streams got %d, the session counts %d, want about %d", total, extra.Load(), maxExtra)
	}
}

// What is unread, what was read and not told, and what the peer may send add up
// to the window, whatever happens.
func TestWindowAddsUp(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var extra atomic.Int64
		w, now, unread := newReceiveWindow(), time.Now(), 0
		for range 300 {
			now = now.Add(time.Duration(rng.Int64N(1 << rng.IntN(32))))
			if n := rng.IntN(window); rng.IntN(2) == 0 {
				if had := w.room; w.admit(n) != (n <= had) {
					t.Fatalf("seed %d: %d bytes into room for %d", seed, n, had)
				} else if n <= had {
					unread += n
				}
			} else {
				n = min(n, unread)
				unread -= n
				had := w.room
				give := 0
				if w.read(n) {
					give = w.give(now, &extra)
				}
				if w.room != had+give {
					t.Fatalf("seed %d: gave %d, counted %d", seed, give, w.room-had)
				}
			}
			if sum := unread + w.owed + w.room; sum != w.size || w.size < window || w.size > maxWindow || w.owed < 0 {
				t.Fatalf("seed %d: %d unread, %d owed and %d of room, of a window of %d", seed, unread, w.owed, w.room, w.size)
			}
		}
	}
}
