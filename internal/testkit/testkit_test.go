// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestMain(m *testing.M) { Main(m) }

func TestBubbleHasItsOwnTime(t *testing.T) {
	began := time.Now()
	Bubble(t, func(t *testing.T) {
		start, fired := time.Now(), false
		time.AfterFunc(time.Hour, func() { fired = true })
		<-time.After(time.Hour + time.Second)
		Wait()
		if took := time.Since(start); took != time.Hour+time.Second || !fired {
			t.Errorf("took %v of fake time, fired %v", took, fired)
		}
	})
	if took := time.Since(began); took > time.Minute {
		t.Errorf("took %v of real time", took)
	}
}

func TestAdvanceWaitsForWhatItSetOff(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		start, steps := time.Now(), 0
		time.AfterFunc(time.Second, func() {
			steps++
			go func() { steps++ }()
		})
		Advance(time.Second)
		if took := time.Since(start); took != time.Second || steps != 2 {
			t.Errorf("%v passed and %d of 2 steps were done", took, steps)
		}
	})
}

// timers is a pool like the one of yamux: a timer that was made in one bubble
// kills the next bubble that takes it out.
var timers = sync.Pool{New: func() any {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return timer
}}

func TestBubblesShareNoPooledTimer(t *testing.T) {
	for range 3 {
		Bubble(t, func(t *testing.T) {
			timer := timers.Get().(*time.Timer)
			timer.Reset(time.Second)
			<-timer.C
			timers.Put(timer)
		})
	}
}

// fakeTB records what a test would be told. Methods that it lacks panic.
type fakeTB struct {
	testing.TB
	errors, logs []string
	cleanups     []func()
}

func (f *fakeTB) Errorf(format string, args ...any) {
	f.errors = append(f.errors, fmt.Sprintf(format, args...))
}

func (f *fakeTB) Logf(format string, args ...any) {
	f.logs = append(f.logs, fmt.Sprintf(format, args...))
}
func (f *fakeTB) Cleanup(cleanup func()) { f.cleanups = append(f.cleanups, cleanup) }

func (f *fakeTB) end() {
	for _, cleanup := range f.cleanups {
		cleanup()
	}
}

func TestLoggerFailsTheTestOnAnError(t *testing.T) {
	for level, fails := range map[slog.Level]bool{
		slog.LevelDebug: false, slog.LevelInfo: false, slog.LevelWarn: false,
		slog.LevelError: true, slog.LevelError + 4: true,
	} {
		for name, derive := range map[string]func(*slog.Logger) *slog.Logger{
			"plain": func(l *slog.Logger) *slog.Logger { return l },
			"with":  func(l *slog.Logger) *slog.Logger { return l.With("k", "v") },
			"group": func(l *slog.Logger) *slog.Logger { return l.WithGroup("g") },
		} {
			tb := &fakeTB{}
			derive(Logger(tb)).Log(t.Context(), level, "it happened", "n", 1)
			if got := len(tb.errors) > 0; got != fails {
				t.Errorf("%v, %s: failed the test %v, want %v", level, name, got, fails)
			}
			if len(tb.logs) != 1 || !strings.Contains(tb.logs[0], "it happened") || strings.HasSuffix(tb.logs[0], "\n") {
				t.Errorf("%v, %s: logged %q, want one line", level, name, tb.logs)
			}
		}
	}
}

func TestLogsCountsTheMessagesOfAllDerivedLoggers(t *testing.T) {
	log, record := Logs(&fakeTB{})
	log.Info("one")
	log.With("k", "v").Debug("two")
	log.WithGroup("g").Warn("two")
	if one, two, none := record.Count("one"), record.Count("two"), record.Count("three"); one != 1 || two != 2 || none != 0 {
		t.Errorf("counted %d, %d, %d, want 1, 2, 0", one, two, none)
	}
}

// A goroutine that outlives its test must not write to it: that panics.
func TestLoggerMayOutliveItsTest(t *testing.T) {
	tb := &fakeTB{}
	log, record := Logs(tb)
	tb.end()
	log.Error("too late")
	if len(tb.errors)+len(tb.logs) != 0 {
		t.Errorf("an ended test was told %q, %q", tb.errors, tb.logs)
	}
	if record.Count("too late") != 1 {
		t.Error("the record is lost")
	}
}
