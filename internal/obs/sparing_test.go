// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package obs

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

// plainTo writes a record as "LEVEL message key=value...", without the time.
func plainTo(out *bytes.Buffer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// A fault is a line when it begins and one a minute while it lasts, which says
// how many were left out; another fault is not hidden behind it.
func TestSparing(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var out bytes.Buffer
		l := Sparing(plainTo(&out, slog.LevelInfo))
		gone, full := errors.New("gone"), errors.New("full")
		want := func(lines string) {
			t.Helper()
			if got := out.String(); got != lines {
				t.Errorf("written\n%swant\n%s", got, lines)
			}
			out.Reset()
		}
		for i := range 1000 {
			l.Error("request failed", "subject", i, "error", gone)
			l.Warn("no look-up", "error", gone)
		}
		want("level=ERROR msg=\"request failed\" subject=0 error=gone\nlevel=WARN msg=\"no look-up\" error=gone\n")
		l.Error("request failed", "subject", "x", "error", full)
		l.Error("request failed", "subject", "y", "error", full)
		want("level=ERROR msg=\"request failed\" subject=x error=full left_out=999\n")
		testkit.Advance(sparingPeriod - time.Second)
		l.With("a", "b").WithGroup("g").Warn("no look-up", "error", gone)
		want("")
		testkit.Advance(time.Second)
		l.With("a", "b").WithGroup("g").Warn("no look-up", "error", gone)
		l.Error("request failed", "error", gone)
		l.Error("request failed", "error", full)
		want("level=WARN msg=\"no look-up\" a=b g.error=gone g.left_out=1000\n" +
			"level=ERROR msg=\"request failed\" error=gone left_out=1\nlevel=ERROR msg=\"request failed\" error=full\n")
		testkit.Advance(time.Hour)
		l.Error("request failed", "error", gone)
		want("level=ERROR msg=\"request failed\" error=gone\n")
	})
}

// Errors of which each is another do not fill the log either.
func TestSparingOfErrorsThatDiffer(t *testing.T) {
	var out bytes.Buffer
	l := Sparing(plainTo(&out, slog.LevelInfo))
	for i := range 1000 {
		l.Error("request failed", "error", fmt.Errorf("from port %d", i))
	}
	if n := strings.Count(out.String(), "\n"); n != sparingErrors {
		t.Errorf("%d lines in a minute", n)
	}
}

// What is no failure is never left out; what is left out is there at debug.
func TestSparingLosesNothing(t *testing.T) {
	var out bytes.Buffer
	l := Sparing(plainTo(&out, slog.LevelDebug))
	for range 3 {
		l.Info("session opened", "sandbox_id", "x")
		l.Debug("detail", "error", "e")
		l.Warn("failed", "error", "e")
	}
	for line, want := range map[string]int{
		"level=INFO msg=\"session opened\" sandbox_id=x\n": 3, "level=DEBUG msg=detail error=e\n": 3,
		"level=WARN msg=failed error=e\n": 1, "level=DEBUG msg=failed error=e\n": 2,
	} {
		if n := strings.Count(out.String(), line); n != want {
			t.Errorf("%d of %q, want %d", n, line, want)
		}
	}
}
