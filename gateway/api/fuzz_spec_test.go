// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"strings"
	"testing"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
)

// FuzzSpec: what is taken of a sandbox can be handed to a process, and what is
// refused is refused in plain text.
func FuzzSpec(f *testing.F) {
	for _, s := range []string{"", "a", "sh", "A=B", "\x00", evil, strings.Repeat("x", 600), "debug", "\xff"} {
		f.Add(s, s, s, s, s)
		f.Add("sh", "PATH", s, "debian:13", "debug")
		f.Add(s, "PATH", "/bin", s, "")
	}
	f.Fuzz(func(t *testing.T, program, name, value, image, level string) {
		s := &openshellv1.SandboxSpec{
			Command: []string{program, value}, Environment: map[string]string{name: value},
			Template: &openshellv1.SandboxTemplate{Image: image}, LogLevel: level,
		}
		if err := validSpec(s); err != nil {
			field := strings.SplitN(err.Error(), "spec.", 2)
			if len(field) != 2 {
				t.Fatalf("refused without a field: %v", err)
			}
			word, _, _ := strings.Cut(field[1], ":")
			refused(t, err, "spec."+word)
			return
		}
		if program == "" || name == "" || strings.Contains(name, "=") || strings.Contains(program+name+value, "\x00") || !plain(image) || len(image) > 512 {
			t.Fatalf("taken: %q %q=%q %q", program, name, value, image)
		}
	})
}

// FuzzPairs: labels and annotations that are taken can be shown anywhere.
func FuzzPairs(f *testing.F) {
	for _, s := range []string{"", "a", "a=b", "a,b", "a b", "\x00", evil, "\xff", "é", strings.Repeat("k", 300)} {
		f.Add(s, "v")
		f.Add("k", s)
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		if err := validPairs("labels", map[string]string{key: value}); err != nil {
			refused(t, err, "labels")
			return
		}
		if key == "" || !plain(key) || !plain(value) || strings.ContainsAny(key, "=, ") {
			t.Fatalf("taken: %q=%q", key, value)
		}
	})
}

// FuzzRequestID: an id that is taken has one form, by which it is found again.
func FuzzRequestID(f *testing.F) {
	for _, s := range []string{
		"", "x", "00000000-0000-0000-0000-000000000000", "6ba7b810-9dad-41d1-80b4-00c04fd430c8", "6BA7B810-9DAD-41D1-80B4-00C04FD430C8",
		"{6ba7b810-9dad-41d1-80b4-00c04fd430c8}", "urn:uuid:6ba7b810-9dad-41d1-80b4-00c04fd430c8", "6ba7b8109dad41d180b400c04fd430c8", evil,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := requestID(text)
		if err != nil {
			refused(t, err, "request_id")
			return
		}
		if again, err := requestID(id); err != nil || again != id || !strings.EqualFold(id, text) {
			t.Fatalf("%q is %q, which is %q, %v", text, id, again, err)
		}
	})
}
