// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

// Main runs a package's tests and fails if a goroutine outlives them:
//
//	func TestMain(m *testing.M) { testkit.Main(m) }
func Main(m *testing.M, ignore ...goleak.Option) { goleak.VerifyTestMain(m, ignore...) }

// Bubble runs f in a bubble of fake time (testing/synctest). Every bubble of
// the project goes through here: yamux keeps *time.Timer values in a global
// pool, and one that was made in an earlier bubble kills the next; two
// collections empty the pool. For the same reason the caller must not be
// parallel.
func Bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer func() { // also after FailNow
		runtime.GC()
		runtime.GC()
	}()
	synctest.Test(t, f)
}

// Wait is synctest.Wait: it returns when every other goroutine of the bubble
// is durably blocked.
func Wait() { synctest.Wait() }

// Advance lets d pass in the bubble, then waits as Wait does.
func Advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Logger returns a logger that writes to t and fails t on a record at level
// ERROR. Steady state and expected trouble log below that.
func Logger(t testing.TB) *slog.Logger { return slog.New(newHandler(t)) }

// Logs is Logger plus the messages it has seen.
func Logs(t testing.TB) (*slog.Logger, *Record) {
	h := newHandler(t)
	return slog.New(h), h.record
}

// Record collects what was logged.
type Record struct {
	mu       sync.Mutex
	messages []string
	done     bool
}

// Count returns how often message was logged, at any level.
func (r *Record) Count(message string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, m := range r.messages {
		if m == message {
			n++
		}
	}
	return n
}

type handler struct {
	t      testing.TB
	record *Record
	text   slog.Handler
}

func newHandler(t testing.TB) *handler {
	r := &Record{}
	t.Cleanup(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.done = true
	})
	w := &testWriter{t: t, record: r}
	return &handler{t: t, record: r, text: slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug})}
}

func (h *handler) Enabled(context.Context, slog.Level) bool { return true }

func (h *handler) Handle(ctx context.Context, rec slog.Record) error {
	h.record.mu.Lock()
	defer h.record.mu.Unlock()
	h.record.messages = append(h.record.messages, rec.Message)
	if h.record.done {
		return nil
	}
	if rec.Level >= slog.LevelError {
		h.t.Errorf("unexpected error log: %s", rec.Message)
	}
	return h.text.Handle(ctx, rec)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{t: h.t, record: h.record, text: h.text.WithAttrs(attrs)}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{t: h.t, record: h.record, text: h.text.WithGroup(name)}
}

type testWriter struct {
	t      testing.TB
	record *Record
}

func (w *testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", p[:len(p)-1])
	return len(p), nil
}
