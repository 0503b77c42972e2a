// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

const requestID = "6f1e9a52-93a1-4d62-8c43-0a2f60a3a001"

func TestReplay(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		c := newClock()
		e.config.Now = c.now
		h := e.open(t)
		first := store.Request{ID: requestID, Method: "CreateSandbox", Payload: hash("a")}
		calls := 0
		run := func(r store.Request) (string, bool, error) {
			response, replayed, err := h.Mutate(t.Context(), r, func(tx store.Tx) ([]byte, error) {
				calls++
				return fmt.Appendf(nil, "response %d\x00\xff", calls), nil
			})
			return string(response), replayed, err
		}
		otherMethod, otherPayload := first, first
		otherMethod.Method, otherPayload.Payload = "DeleteSandbox", hash("b")
		for _, step := range []struct {
			name     string
			advance  time.Duration
			request  store.Request
			replayed bool
			calls    int // so far
			err      error
		}{
			{"first", 0, first, false, 1, nil},
			{"again", 0, first, true, 1, nil},
			{"just within 24 hours", 24*time.Hour - time.Microsecond, first, true, 1, nil},
			{"another payload", 0, otherPayload, false, 1, store.ErrRequestMismatch},
			{"another method", 0, otherMethod, false, 1, store.ErrRequestMismatch},
			{"another payload does not refresh", 0, first, true, 1, nil},
			{"after 24 hours with another payload", time.Microsecond, otherPayload, false, 2, nil},
			{"that one again", time.Hour, otherPayload, true, 2, nil},
			{"the clock goes back", -30 * time.Hour, otherPayload, true, 2, nil},
			{"no id", 0, store.Request{Method: "CreateSandbox"}, false, 3, nil},
			{"no id again", 0, store.Request{Method: "CreateSandbox"}, false, 4, nil},
		} {
			c.advance(step.advance)
			response, replayed, err := run(step.request)
			if !errors.Is(err, step.err) || replayed != step.replayed || calls != step.calls {
				t.Errorf("%s: replayed %v, calls %d, error %v; want %v, %d, %v", step.name, replayed, calls, err, step.replayed, step.calls, step.err)
			}
			if want := fmt.Sprintf("response %d\x00\xff", step.calls); err == nil && response != want {
				t.Errorf("%s: response %q, want %q", step.name, response, want)
			}
		}
		h.close(t)
		h = e.open(t)
		if response, replayed, err := run(otherPayload); err != nil || !replayed || response != "response 2\x00\xff" {
			t.Errorf("after a restart: %q, %v, %v", response, replayed, err)
		}
	})
}

// A failure changes nothing and is not remembered.
func TestFailureIsNotReplayed(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		h := e.open(t)
		r := store.Request{ID: requestID, Method: "CreateSandbox"}
		failure := errors.New("no")
		for range 2 {
			if _, _, err := h.Mutate(t.Context(), r, func(store.Tx) ([]byte, error) { return nil, failure }); !errors.Is(err, failure) {
				t.Fatalf("error %v, want the function's own", err)
			}
		}
		response, replayed, err := h.Mutate(t.Context(), r, func(store.Tx) ([]byte, error) { return nil, nil })
		if err != nil || replayed || len(response) != 0 {
			t.Fatalf("after failures: %q, %v, %v", response, replayed, err)
		}
		response, replayed, err = h.Mutate(t.Context(), r, func(store.Tx) ([]byte, error) { return nil, failure })
		if err != nil || !replayed || len(response) != 0 {
			t.Fatalf("replay of an empty response: %q, %v, %v", response, replayed, err)
		}
	})
}

// Requests with one id at once: one of them acts, all get its response.
func TestConcurrentReplay(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		h := e.open(t)
		const n = 8
		type result struct {
			response string
			replayed bool
			err      error
		}
		results := make(chan result, n)
		for i := range n {
			go func() {
				response, replayed, err := h.Mutate(context.Background(), store.Request{ID: requestID}, func(store.Tx) ([]byte, error) {
					return fmt.Appendf(nil, "%d", i), nil
				})
				results <- result{string(response), replayed, err}
			}()
		}
		acted, responses := 0, map[string]bool{}
		for range n {
			r := <-results
			if r.err != nil {
				t.Error(r.err)
			}
			if !r.replayed {
				acted++
			}
			responses[r.response] = true
		}
		if acted != 1 || len(responses) != 1 {
			t.Errorf("%d acted, responses %v: want one", acted, responses)
		}
	})
}

// Expired ids go away in small portions, also when no new ids come.
func TestPrune(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		c := newClock()
		e.config.Now = c.now
		h := e.open(t)
		count := func() (n int) {
			t.Helper()
			if err := e.raw(t).QueryRowContext(t.Context(), "SELECT COUNT(*) FROM requests").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		add := func(id string) {
			t.Helper()
			if _, _, err := h.Mutate(t.Context(), store.Request{ID: id}, func(store.Tx) ([]byte, error) { return nil, nil }); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 40 {
			add(fmt.Sprintf("old-%d", i))
		}
		c.advance(24*time.Hour - time.Microsecond)
		add("young")
		if n := count(); n != 41 {
			t.Fatalf("%d ids before the first expires, want 41", n)
		}
		c.advance(time.Microsecond)
		for _, want := range []int{25, 9, 1, 1} {
			h.do(t, func(store.Tx) error { return nil })
			if n := count(); n != want {
				t.Fatalf("%d ids after one more write, want %d", n, want)
			}
		}
	})
}
