// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"strings"
	"testing"
)

func TestValidatePath(t *testing.T) {
	for _, tt := range []struct {
		path string
		want string // in the error; "" for none
	}{
		{"", ""},
		{"/", ""},
		{"/readyz", ""},
		{"/a//b/../c;v=1/%2F%3f~!$&'()*+,=:@", ""},
		{"/" + strings.Repeat("x", 1023), ""},
		{"/" + strings.Repeat("x", 1024), "1025 bytes: a path has at most 1024"},
		{"readyz", `begins with "/"`},
		{"http://example.org/", `begins with "/"`},
		{"//example.org/", "another host"},
		{`/\example.org/`, "another host"},
		{"*", `begins with "/"`},
		{"/a?b", `has "?" at byte 2: a path has no query`},
		{"/a#b", `has "#" at byte 2: a path has no fragment`},
		{"/a b", "byte 0x20 at byte 2"},
		{"/a\tb", "byte 0x09"},
		{"/ HTTP/1.1\r\nHost: other", "byte 0x20 at byte 1"},
		{"/\r\n", "byte 0x0d at byte 1"},
		{"/\n", "byte 0x0a"},
		{"/\x00", "byte 0x00"},
		{"/\x7f", "control characters"},
		{"/\x80", "percent-encode"},
		{"/ü", "byte 0xc3 at byte 1: a path is ASCII"},
		{" /", `begins with "/"`},
	} {
		err := ValidatePath(tt.path)
		if tt.want == "" {
			if err != nil {
				t.Errorf("ValidatePath(%q) = %v", tt.path, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "path ") {
			t.Errorf("ValidatePath(%q) = %v, want %q", tt.path, err, tt.want)
		}
		if got := (Target{Port: 1, Path: tt.path}).Validate(); got == nil {
			t.Errorf("a target with path %q is valid", tt.path)
		}
	}
}

// TestPathErrorsAreClean: whoever sets a path may be a sandbox, and an error
// ends on a terminal.
func TestPathErrorsAreClean(t *testing.T) {
	for b := range 256 {
		for _, path := range []string{string([]byte{byte(b)}), string([]byte{'/', byte(b)}), string([]byte{'/', 'a', byte(b)})} {
			err := ValidatePath(path)
			if err == nil {
				continue
			}
			for _, c := range []byte(err.Error()) {
				if c < ' ' || c >= 0x7f {
					t.Fatalf("ValidatePath(%q): the error has byte %#x", path, c)
				}
			}
		}
	}
}

func TestValidatePort(t *testing.T) {
	if err := (Target{Path: "/"}).Validate(); err == nil || !strings.Contains(err.Error(), "port 0") {
		t.Errorf("port 0: %v", err)
	}
	for _, port := range []uint16{1, 80, 65535} {
		if err := (Target{Port: port}).Validate(); err != nil {
			t.Errorf("port %d: %v", port, err)
		}
	}
}

// TestWords holds names and numbers that others rely on.
func TestWords(t *testing.T) {
	for i, want := range []string{
		"None", "OK", "Refused", "Timeout", "Reset", "Closed", "NotHTTP", "HeadersTooLarge",
		"BadStatus", "Unreachable", "NoResources", "Late", "Suspended", "Internal", "Unknown", 255: "Unknown",
	} {
		if got := Reason(i).String(); want != "" && got != want {
			t.Errorf("Reason(%d) = %q, want %q", i, got, want)
		}
	}
	if Timeout != 3 || BadStatus != 8 || Internal != 13 {
		t.Error("reasons moved")
	}
	for i, want := range []string{"None", "Pass", "Fail", "Inconclusive", "Unknown", 255: "Unknown"} {
		if got := Outcome(i).String(); want != "" && got != want {
			t.Errorf("Outcome(%d) = %q, want %q", i, got, want)
		}
	}
	for i, want := range []string{"UNKNOWN", "HEALTHY", "UNHEALTHY", "UNKNOWN"} {
		if got := State(i).String(); got != want {
			t.Errorf("State(%d) = %q, want %q", i, got, want)
		}
	}
}

// TestOutcomeOfReason holds which reasons are held against a service.
func TestOutcomeOfReason(t *testing.T) {
	want := map[Outcome][]Reason{
		NoOutcome:    {NoReason},
		Pass:         {OK},
		Fail:         {Refused, Timeout, Reset, Closed, NotHTTP, HeadersTooLarge, BadStatus, Unreachable},
		Inconclusive: {NoResources, Late, Suspended, Internal},
	}
	for o, reasons := range want {
		for _, r := range reasons {
			if got := r.outcome(); got != o {
				t.Errorf("%v is %v, want %v", r, got, o)
			}
		}
	}
}
