// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/mux"
)

func TestRedial(t *testing.T) {
	const ms = time.Millisecond
	plain := errors.New("refused by the network")
	asked := func(d time.Duration) error {
		return fmt.Errorf("dial: %w", &mux.RefusedError{Status: 503, RetryAfter: d})
	}
	type step struct {
		lasted time.Duration // of a session before; 0: none
		err    error
		chance float64
		want   time.Duration
	}
	for name, steps := range map[string][]step{
		"doubles to the cap": {
			{0, plain, 0, 125 * ms},
			{0, plain, 0, 250 * ms},
			{0, plain, 0, 500 * ms},
			{0, plain, 0, 1000 * ms},
			{0, plain, 0, 2000 * ms},
			{0, plain, 0, 4000 * ms},
			{0, plain, 0, 7500 * ms},
			{0, plain, 0, 7500 * ms},
		},
		"jitter also at the cap": {
			{0, plain, 0.5, 187500 * time.Microsecond},
			{0, plain, 0.5, 375 * ms},
			{0, plain, 0.5, 750 * ms},
			{0, plain, 0.5, 1500 * ms},
			{0, plain, 0.5, 3000 * ms},
			{0, plain, 0.5, 6000 * ms},
			{0, plain, 0.5, 11250 * ms},
			{0, plain, 0.5, 11250 * ms},
		},
		"whatever the error": {
			{0, nil, 0, 125 * ms},
			{0, &mux.RefusedError{Status: 401}, 0, 250 * ms},
			{0, &mux.RefusedError{Status: 403}, 0, 500 * ms},
			{0, mux.ErrBadResponse, 0, 1000 * ms},
			{0, mux.ErrProtocol, 0, 2000 * ms},
		},
		"a session of 10 s resets": {
			{0, plain, 0, 125 * ms}, {0, plain, 0, 250 * ms}, {10 * time.Second, plain, 0, 125 * ms}, {0, plain, 0, 250 * ms},
		},
		"a shorter one does not": {
			{0, plain, 0, 125 * ms}, {0, plain, 0, 250 * ms}, {10*time.Second - 1, plain, 0, 500 * ms},
		},
		"retry after": {
			{0, asked(5 * time.Second), 0, 5 * time.Second}, {0, asked(5 * time.Second), 0.5, 6250 * ms}, {0, plain, 0, 500 * ms},
		},
		"retry after an hour":            {{0, asked(time.Hour), 0, time.Minute}, {0, asked(time.Hour), 0.5, 75 * time.Second}},
		"retry sooner than the backoff":  {{0, asked(time.Millisecond), 0, 125 * ms}},
		"retry after a negative instant": {{0, asked(-time.Hour), 0, 125 * ms}},
	} {
		var r mux.Redial
		for i, s := range steps {
			if s.lasted > 0 {
				r.Connected(s.lasted)
			}
			if got := r.Failed(s.err, s.chance); got != s.want {
				t.Errorf("%s, step %d: %v, want %v", name, i, got, s.want)
			}
		}
	}
}

// T29: whatever happened before, a delay has its bounds, and a fleet that was
// refused in one moment comes back over a time, also at the cap.
func TestRedialSpreads(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, retryAfter := range []time.Duration{0, time.Second, 20 * time.Second, time.Hour} {
		for _, history := range []int{0, 1, 3, 7, 20} {
			const agents = 1000
			low, high := time.Hour, time.Duration(0)
			buckets := make([]int, 10)
			delays := make([]time.Duration, agents)
			for i := range agents {
				var r mux.Redial
				var err error = &mux.RefusedError{Status: 503}
				for range history {
					r.Failed(err, rng.Float64())
				}
				err = &mux.RefusedError{Status: 503, RetryAfter: retryAfter}
				d := r.Failed(err, rng.Float64())
				delays[i] = d
				low, high = min(low, d), max(high, d)
			}
			asked := min(retryAfter, time.Minute)
			if low < max(asked, 125*time.Millisecond) || high > max(15*time.Second, asked*3/2) {
				t.Fatalf("retry after %v, %d failures before: delays from %v to %v", retryAfter, history, low, high)
			}
			for _, d := range delays {
				buckets[min(9, int(10*(d-low)/(high-low+1)))]++
			}
			for _, n := range buckets {
				if n > 3*agents/len(buckets) {
					t.Fatalf("retry after %v, %d failures before: %v", retryAfter, history, buckets)
				}
			}
			if high-low < low/3 {
				t.Fatalf("retry after %v, %d failures before: only from %v to %v", retryAfter, history, low, high)
			}
		}
	}
}
