// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package backoff

import (
	"testing"
	"time"
)

func TestDelay(t *testing.T) {
	p := Policy{Min: 250 * time.Millisecond, Max: 15 * time.Second, Factor: 2}
	for _, tc := range []struct {
		n      int
		chance float64
		want   time.Duration
	}{
		{0, 0, 125 * time.Millisecond},
		{0, 0.5, 187500 * time.Microsecond},
		{1, 0, 250 * time.Millisecond},
		{6, 0, 7500 * time.Millisecond},
		{1 << 30, 0, 7500 * time.Millisecond},
		{1 << 30, 0.9999999, 14999999250 * time.Nanosecond},
	} {
		if got := p.Delay(tc.n, tc.chance); got != tc.want {
			t.Errorf("Delay(%d, %v) = %v, want %v", tc.n, tc.chance, got, tc.want)
		}
	}
}
