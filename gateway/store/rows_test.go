// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"maps"
	"slices"
	"testing"
	"time"
)

// What valid lets through comes back as it was, whatever it holds.
func FuzzTextRoundTrip(f *testing.F) {
	for _, s := range []string{"", "a", "ä\n\t", "\u0000", "\"'{}[]", "</script>", "\u2028", "\xff", "a\x00b"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		m, l := map[string]string{key: value}, []string{value, key}
		if validTexts("map", m, "list", l) != nil {
			return
		}
		var gotMap map[string]string
		if err := (text{&gotMap}).Scan(encode(m)); err != nil || !maps.Equal(gotMap, m) {
			t.Errorf("map %q came back as %q, %v", m, gotMap, err)
		}
		var gotList []string
		if err := (text{&gotList}).Scan([]byte(encode(l))); err != nil || !slices.Equal(gotList, l) {
			t.Errorf("list %q came back as %q, %v", l, gotList, err)
		}
	})
}

// A damaged row is an error, not a panic or a wrong value.
func FuzzTextScan(f *testing.F) {
	for _, s := range []string{"", "{}", "{\"a\":\"b\"}", "[1]", "{\"a\":1}", "nul", "{\"a\":{}}", "\x00\x00\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, stored string) {
		var m map[string]string
		if err := (text{&m}).Scan(stored); err != nil {
			return
		}
		var again map[string]string
		if err := (text{&again}).Scan(encode(m)); err != nil || !maps.Equal(again, m) {
			t.Errorf("%q was read as %q and then as %q, %v", stored, m, again, err)
		}
	})
}

func TestScanRefusesOtherTypes(t *testing.T) {
	var m map[string]string
	if err := (text{&m}).Scan(int64(1)); err == nil {
		t.Error("a number was read as a map")
	}
	var at time.Time
	if err := (instant{&at}).Scan("2026-01-01"); err == nil {
		t.Error("a text was read as an instant")
	}
}
