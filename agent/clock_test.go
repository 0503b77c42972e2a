// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestWatchClock: a clock that is set is noticed at once, and each time.
func TestWatchClock(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	set := make(chan struct{}, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- watchClock(ctx, func() {
			select {
			case set <- struct{}{}:
			default:
			}
		})
	}()
	for range 2 {
		// A step by a nanosecond is a step. The first may come before the watch.
		deadline := time.After(10 * time.Second)
		tick := time.NewTicker(20 * time.Millisecond)
		for seen := false; !seen; {
			_, err := unix.Adjtimex(&unix.Timex{Modes: unix.ADJ_SETOFFSET | unix.ADJ_NANO, Time: unix.Timeval{Usec: 1}})
			if errors.Is(err, unix.EPERM) {
				t.Skip("setting the clock (by 1 ns) needs CAP_SYS_TIME: run this as root")
			}
			if err != nil {
				t.Fatal(err)
			}
			select {
			case <-set:
				seen = true
			case <-tick.C:
			case <-deadline:
				t.Fatal("not noticed")
			}
		}
		tick.Stop()
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestSinceBoot(t *testing.T) {
	first := sinceBoot()
	if second := sinceBoot(); first <= 0 || second < first {
		t.Errorf("%v, then %v", first, second)
	}
}
