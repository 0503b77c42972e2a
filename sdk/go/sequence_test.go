// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"testing"
)

func TestRepeatedPage(t *testing.T) {
	calls := 0
	var last error
	for _, err := range pages("", func(string) ([]int, string, error) { calls++; return []int{1}, "same", nil }) {
		if last = err; calls > 10 {
			break
		}
	}
	if calls != 2 || !errors.Is(last, ErrRepeatedPage) {
		t.Errorf("%d calls, %v; want 2, ErrRepeatedPage", calls, last)
	}
}

// A sequence can be read again from its beginning.
func TestPagesTwice(t *testing.T) {
	seq := pages("a", func(token string) ([]string, string, error) {
		return []string{token}, map[string]string{"a": "b"}[token], nil
	})
	for range 2 {
		got := ""
		for s := range seq {
			got += s
		}
		if got != "ab" {
			t.Errorf("read %q, want ab", got)
		}
	}
}
