// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

// TestHistories plays random histories whose attempts follow no schedule, which
// makes them worse than any schedule can.
func TestHistories(t *testing.T) { histories(t, false, sequences(t)*4/5) }

// TestScheduledHistories plays random histories of agents that attempt, report
// and redial as they do.
func TestScheduledHistories(t *testing.T) { histories(t, true, sequences(t)/5) }

// sequences is how many histories are played altogether.
func sequences(t *testing.T) uint64 { return number(t, "MODEL_SEQUENCES", 500) }

// number reads a number from the environment.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// histories plays n histories, on all processors, up to the first that shows a
// difference.
func histories(t *testing.T, scheduled bool, n uint64) {
	first := number(t, "MODEL_SEED", 1)
	var next atomic.Uint64
	var mu sync.Mutex
	compared := map[answer]int{}
	var failed sync.Once
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1); i <= n && !t.Failed(); i = next.Add(1) {
				seed := first + i - 1
				history := generate(seed, scheduled)
				difference, answers := run(history, scheduled)
				mu.Lock()
				for a, n := range answers {
					compared[a] += n
				}
				mu.Unlock()
				if difference != "" {
					failed.Do(func() { t.Error(explain(seed, history, scheduled)) })
				}
			}
		})
	}
	wg.Wait()
	if !t.Failed() {
		covered(t, n, compared)
	}
}

// covered fails if an answer was never compared: then the histories are too
// tame to hold anything to.
func covered(t *testing.T, n uint64, compared map[answer]int) {
	total := 0
	for _, times := range compared {
		total += times
	}
	t.Logf("%d histories, %d answers", n, total)
	want := []answer{{probe.Unknown, health.NoReason}, {probe.Healthy, health.NoReason}, {probe.Unhealthy, health.NoReason}}
	for r := health.SandboxStopped; r <= health.Inconclusive; r++ {
		want = append(want, answer{probe.Unknown, r})
	}
	for _, a := range want {
		t.Logf("%9d %v %v", compared[a], a.state, a.reason)
		if compared[a] < int(n/400) {
			t.Errorf("%v %v was answered %d times in %d histories", a.state, a.reason, compared[a], n)
		}
	}
}

// explain says what is wrong with a history, in as few ops as it takes.
func explain(seed uint64, history []op, scheduled bool) string {
	short := shorten(history, func(h []op) bool {
		difference, _ := run(h, scheduled)
		return difference != ""
	})
	difference, _ := run(short, scheduled)
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, scheduled %v, %d of %d ops:\n", seed, scheduled, len(short), len(history))
	for _, o := range short {
		fmt.Fprintf(&b, "    %v\n", o)
	}
	fmt.Fprintf(&b, "  %s", difference)
	return b.String()
}

// shorten leaves ops out as long as the history still fails: halves, quarters,
// …, single ones, until none can go.
func shorten(history []op, fails func([]op) bool) []op {
	for size := len(history) / 2; size >= 1; {
		removed := false
		for at := 0; at+size <= len(history); {
			shorter := append(append([]op{}, history[:at]...), history[at+size:]...)
			if fails(shorter) {
				history, removed = shorter, true
			} else {
				at += size
			}
		}
		if !removed || size > 1 {
			size /= 2
		}
	}
	return history
}
