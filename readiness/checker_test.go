// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// start runs a Checker until the test's bubble ends.
func start(t *testing.T, checks ...Check) *Checker {
	c := New(testkit.Logger(t), checks...)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return c
}

func get(t *testing.T, h http.Handler, method, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w.Code, w.Body.String()
}

func TestThresholds(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var broken atomic.Bool
		broken.Store(true)
		c := start(t, Check{"store", func(context.Context) error {
			if broken.Load() {
				return errors.New("gone")
			}
			return nil
		}})
		testkit.Wait()
		if c.Ready() {
			t.Fatal("ready before the first pass")
		}
		broken.Store(false)
		testkit.Advance(5 * time.Second)
		if !c.Ready() {
			t.Fatal("not ready after one pass")
		}
		broken.Store(true)
		testkit.Advance(10 * time.Second)
		if !c.Ready() {
			t.Fatal("not ready after two failures")
		}
		testkit.Advance(5 * time.Second)
		if c.Ready() {
			t.Fatal("ready after three failures")
		}
	})
}

func TestCheckNow(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var broken atomic.Bool
		broken.Store(true)
		c := start(t, Check{"gateway", func(context.Context) error {
			if broken.Load() {
				return errors.New("gone")
			}
			return nil
		}})
		testkit.Wait()
		broken.Store(false)
		c.CheckNow()
		testkit.Wait()
		if !c.Ready() {
			t.Fatal("not ready after an extra check that passed")
		}
		broken.Store(true)
		for range 5 { // extra failures do not count
			c.CheckNow()
			testkit.Wait()
		}
		if !c.Ready() {
			t.Fatal("not ready after extra checks that failed")
		}
		testkit.Advance(15 * time.Second)
		if c.Ready() {
			t.Fatal("ready after three rounds that failed")
		}
	})
}

func TestAHangingCheckFailsAfterTwoSeconds(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		hang := make(chan struct{})
		c := start(t, Check{"store", func(context.Context) error { <-hang; return nil }})
		defer close(hang)
		testkit.Advance(CheckTimeout)
		if r := c.Results()[0]; r.Err == nil {
			t.Fatalf("the check ignores its context and still passed: %+v", r)
		}
	})
}

// However long a dependency hangs, it is asked once, and again when it answers.
func TestHangingChecksDoNotAddUp(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var calls atomic.Int64
		hang := make(chan struct{})
		c := start(t, Check{"store", func(context.Context) error { calls.Add(1); <-hang; return nil }})
		testkit.Advance(time.Hour)
		if n := calls.Load(); n != 1 || c.Ready() {
			t.Errorf("%d checks hang, ready: %v", n, c.Ready())
		}
		close(hang)
		testkit.Advance(5 * time.Second)
		if n := calls.Load(); n < 2 || !c.Ready() {
			t.Errorf("%d checks once it answers, ready: %v", n, c.Ready())
		}
	})
}

func TestAPanickingCheckFails(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		c := start(t, Check{"store", func(context.Context) error { panic("bug") }})
		testkit.Wait()
		if r := c.Results()[0]; r.Err == nil || c.Ready() {
			t.Fatalf("a panic passed: %+v", r)
		}
	})
}

// The verdict is not trusted once its checker stands still.
func TestAnOldVerdictIsNotReady(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		c := New(testkit.Logger(t), Check{"store", func(context.Context) error { return nil }})
		c.round(context.Background(), false)
		testkit.Advance(14900 * time.Millisecond)
		if !c.Ready() {
			t.Fatal("not ready 14.9 s after a pass")
		}
		testkit.Advance(200 * time.Millisecond)
		if c.Ready() {
			t.Fatal("ready 15.1 s after the last check")
		}
	})
}

// T27: whoever asks is answered from memory.
func TestABurstAsksNoDependency(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var calls atomic.Int64
		c := start(t, Check{"store", func(context.Context) error { calls.Add(1); return nil }})
		testkit.Wait()
		before := calls.Load()
		h := c.Handler(true)
		for range 2500 {
			for _, path := range []string{"/livez", "/readyz", "/healthz", "/readyz?verbose"} {
				if code, _ := get(t, h, "GET", path); code != http.StatusOK {
					t.Fatalf("GET %s: %d", path, code)
				}
			}
		}
		if n := calls.Load() - before; before != 1 || n != 0 {
			t.Fatalf("%d calls before the burst and %d during it, want 1 and 0", before, n)
		}
	})
}

func TestHandler(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		c := start(t, Check{"store", func(context.Context) error { return errors.New("bad\x1b[31m") }})
		testkit.Wait()
		type reply struct {
			code int
			body string
		}
		for request, want := range map[string]reply{
			"GET /livez":    {200, "ok"},
			"HEAD /livez":   {200, "ok"}, // the server leaves the body out
			"GET /readyz":   {503, "not ready"},
			"GET /healthz":  {503, "not ready"},
			"HEAD /readyz":  {503, "not ready"},
			"POST /readyz":  {405, "Method Not Allowed\n"},
			"GET /readyz/x": {404, "404 page not found\n"},
			"GET /":         {404, "404 page not found\n"},
		} {
			method, path, _ := strings.Cut(request, " ")
			if code, body := get(t, c.Handler(false), method, path); code != want.code || body != want.body {
				t.Errorf("%s: %d %q, want %d %q", request, code, body, want.code, want.body)
			}
		}
		if _, body := get(t, c.Handler(false), "GET", "/readyz?verbose"); body != "not ready" {
			t.Errorf("a public listener tells too much: %q", body)
		}
		if _, body := get(t, c.Handler(true), "GET", "/readyz?verbose"); body != "not ready\nstore: failed 0.0s ago: \"bad\\x1b[31m\"\n" {
			t.Errorf("verbose: %q", body)
		}
	})
}

func TestDrainIsNotReadyAtOnceAndAlive(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		c := start(t, Check{"store", func(context.Context) error { return nil }})
		testkit.Wait()
		if code, body := get(t, c.Handler(false), "GET", "/readyz"); code != 200 || body != "ready" {
			t.Fatalf("before: %d %q", code, body)
		}
		c.Drain()
		if code, _ := get(t, c.Handler(false), "GET", "/readyz"); code != 503 {
			t.Fatalf("draining: %d", code)
		}
		if code, _ := get(t, c.Handler(false), "GET", "/livez"); code != 200 {
			t.Fatalf("draining, /livez: %d", code)
		}
	})
}
