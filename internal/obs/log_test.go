// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package obs

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestNewLogger(t *testing.T) {
	var out bytes.Buffer
	var level slog.LevelVar
	level.Set(slog.LevelWarn)
	l, err := NewLogger(&out, &level, "json")
	if err != nil {
		t.Fatal(err)
	}
	l.Info("quiet")
	l.Warn("loud")
	if got := out.String(); strings.Contains(got, "quiet") || !strings.Contains(got, `"msg":"loud"`) {
		t.Fatalf("logged %q", got)
	}
	level.Set(slog.LevelInfo)
	if l.Info("no longer quiet"); !strings.Contains(out.String(), "no longer quiet") {
		t.Fatal("the new level has no effect")
	}
	if _, err := NewLogger(&out, &level, "xml"); err == nil || !strings.Contains(err.Error(), "log-format") {
		t.Errorf("a bad format: %v", err)
	}
}

func TestParseLevel(t *testing.T) {
	for text, want := range map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	} {
		if got, err := ParseLevel(text); got != want || err != nil {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "chatty", "INFO", "info+2"} {
		if _, err := ParseLevel(bad); err == nil || !strings.Contains(err.Error(), "log-level") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// The journal takes the priority from the front of each line; a record is one
// line whatever is in it.
func TestJournal(t *testing.T) {
	var out bytes.Buffer
	l, err := NewLogger(&out, slog.LevelDebug, "journal")
	if err != nil {
		t.Fatal(err)
	}
	l.Debug("a")
	l.Info("b")
	l.With("who", "x").WithGroup("g").Warn("c", "error", errors.New("two\n<0>lines"))
	l.Error("d")
	want := "<7>level=DEBUG msg=a\n" +
		"<6>level=INFO msg=b\n" +
		"<4>level=WARN msg=c who=x g.error=\"two\\n<0>lines\"\n" +
		"<3>level=ERROR msg=d\n"
	if got := out.String(); got != want {
		t.Fatalf("logged\n%swant\n%s", got, want)
	}
}
