// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

var hostile = map[string]string{
	"plain":                 "plain",
	"grüße 世界 é":            "grüße 世界 é",
	"\x1b[2J\x1b]0;x\x07":   `\x1b[2J\x1b]0;x\a`,
	"a\nb\tc\rd":            `a\nb\tc\rd`,
	"\u009b31m\u0085\x7f":   `\u009b31m\u0085\x7f`,
	"\u202egpj.exe\u2066":   `\u202egpj.exe\u2066`,
	"zero\u200bwidth\ufeff": `zero\u200bwidth\ufeff`,
	"\u2028\u2029\u00a0":    `\u2028\u2029\u00a0`,
	"\xff\xfe":              "\ufffd\ufffd",
	"\U000e0041":            `\U000e0041`,
	"":                      "",
}

func TestClean(t *testing.T) {
	for in, want := range hostile {
		if got := clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	for in := range hostile {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := clean(s)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("clean(%q) = %q", s, got)
		}
		if again := clean(got); again != got {
			t.Errorf("clean twice: %q, then %q", got, again)
		}
	})
}

func TestHealthWords(t *testing.T) {
	for _, tt := range []struct {
		h       sandbox.Health
		want    string
		attempt string
		tone    tone
	}{
		{sandbox.Health{State: sandbox.HealthHealthy, Ready: true, HTTPStatus: 200}, "Ready", "HTTP 200", good},
		{sandbox.Health{State: sandbox.HealthHealthy, Reason: "Refused", Failures: 1}, "Responsive", "Refused", good},
		{sandbox.Health{State: sandbox.HealthUnhealthy, Ready: true, Reason: "BadStatus", HTTPStatus: 503}, "Not ready", "BadStatus 503", bad},
		{sandbox.Health{State: sandbox.HealthUnhealthy, Reason: "Timeout"}, "Unresponsive", "Timeout", bad},
		{sandbox.Health{Reason: "Stale", HTTPStatus: 200}, "Unknown (Stale)", "HTTP 200", unsure},
		{sandbox.Health{Reason: "SupervisorDisconnected", Ready: true}, "Unknown (SupervisorDisconnected)", "", unsure},
		{sandbox.Health{}, "Unknown", "", unsure},
		{sandbox.Health{State: 9, Reason: "Odd"}, "Unknown (Odd)", "Odd", unsure},
	} {
		got, tone := healthWords(tt.h)
		if got != tt.want || tone != tt.tone || attemptWords(tt.h) != tt.attempt {
			t.Errorf("%+v: %q (%d), %q; want %q (%d), %q", tt.h, got, tone, attemptWords(tt.h), tt.want, tt.tone, tt.attempt)
		}
	}
}

// Each value of an enum has words, and a value that this version does not know
// is unknown: not a number, and not another value's words.
func TestPhaseWords(t *testing.T) {
	seen := map[string]bool{}
	for value, name := range openshellv1.SandboxPhase_name {
		got, _ := phaseWords(&openshellv1.SandboxStatus{Phase: openshellv1.SandboxPhase(value)})
		want := strings.TrimPrefix(name, "SANDBOX_PHASE_")
		if want == "UNSPECIFIED" {
			want = "UNKNOWN"
		}
		if strings.ToUpper(got) != want || (seen[got] && want != "UNKNOWN") {
			t.Errorf("phase %s is %q", name, got)
		}
		seen[got] = true
	}
	if got, _ := phaseWords(&openshellv1.SandboxStatus{Phase: 77}); got != "Unknown" {
		t.Errorf("phase 77 is %q", got)
	}
	if got, _ := phaseWords(nil); got != "Unknown" {
		t.Errorf("no status is %q", got)
	}
	code := int32(0)
	if got, _ := phaseWords(&openshellv1.SandboxStatus{Phase: openshellv1.SandboxPhase_SANDBOX_PHASE_ERROR, ExitCode: &code}); got != "Error (exit 0)" {
		t.Errorf("an exit with 0 is %q", got)
	}
}

func TestOutcomeWords(t *testing.T) {
	for value := range openshellv1.DeletionOutcome_name {
		unknown := outcomeWords(openshellv1.DeletionOutcome(value)) == outcomeWords(99)
		if unknown != (value == 0) {
			t.Errorf("outcome %d is %q", value, outcomeWords(openshellv1.DeletionOutcome(value)))
		}
	}
}

func TestTimeWords(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "0s", 0: "0s", 999 * time.Millisecond: "0s", 15 * time.Second: "15s", 119 * time.Second: "119s",
		2 * time.Minute: "2m", 119 * time.Minute: "119m", 2 * time.Hour: "2h", 47 * time.Hour: "47h", 48 * time.Hour: "2d", 1000 * time.Hour: "41d",
	} {
		if got := ageWords(today.Add(-d), today); got != want {
			t.Errorf("age %v is %q, want %q", d, got, want)
		}
	}
	if got := ageWords(time.Time{}, today); got != "" {
		t.Errorf("no time has the age %q", got)
	}
	for d, want := range map[time.Duration]string{
		-1: "", 0: "", 40 * time.Microsecond: "0.0ms", 860 * time.Microsecond: "0.9ms", 2100 * time.Microsecond: "2.1ms",
		10 * time.Millisecond: "10ms", 999600 * time.Microsecond: "1000ms",
	} {
		if got := latencyWords(d); got != want {
			t.Errorf("latency %v is %q, want %q", d, got, want)
		}
	}
}
