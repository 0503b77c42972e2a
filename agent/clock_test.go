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

// setClock sets the clock, by a nanosecond.
func setClock(t *testing.T) {
	_, err := unix.Adjtimex(&unix.Timex{Modes: unix.ADJ_SETOFFSET | unix.ADJ_NANO, Time: unix.Timeval{Usec: 1}})
	switch {
	case errors.Is(err, unix.EPERM):
		t.Skip("setting the clock (by 1 ns) needs CAP_SYS_TIME: run this as root")
	case err != nil:
		t.Error(err)
	}
}

// TestWatchClock: a clock that is set is noticed at once, and each time, also
// while the time before is being seen to.
func TestWatchClock(t *testing.T) {
	setClock(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const times = 20
	noticed := 0
	ended := make(chan error, 1)
	go func() {
		ended <- watchClock(ctx, func() {
			if noticed++; noticed == times {
				cancel()
			} else if noticed%2 == 0 {
				setClock(t)
			}
		})
	}()
	// What is set before the watch begins is not noticed.
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(30 * time.Second)
	for {
		select {
		case err := <-ended:
			if err != nil || noticed != times {
				t.Errorf("noticed %d times, then ended with %v", noticed, err)
			}
			return
		case <-tick.C:
			setClock(t)
		case <-limit:
			t.Fatal("not noticed")
		}
	}
}

func TestSinceBoot(t *testing.T) {
	first := sinceBoot()
	if second := sinceBoot(); first <= 0 || second < first {
		t.Errorf("%v, then %v", first, second)
	}
}
