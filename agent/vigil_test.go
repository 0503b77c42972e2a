// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"
	"time"
)

// TestVigil holds the decision of T12: which behaviour of the clocks means that
// this process was suspended, and for how long.
func TestVigil(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		name                   string
		mono, boot, wall, late time.Duration // since the last turn
		want                   time.Duration
	}{
		{"a turn on time", 5 * s, 5 * s, 5 * s, 0, 0},
		{"nothing has passed", 0, 0, 0, 0, 0},
		{"T05 starved of CPU", 9 * s, 9 * s, 9 * s, 4999 * time.Millisecond, 0},
		{"frozen", 10 * s, 10 * s, 10 * s, 5 * s, 5 * s},
		{"frozen for a minute", 61 * s, 61 * s, 61 * s, 56 * s, 56 * s},
		{"clocks read one after the other", 5 * s, 5*s + 999*time.Millisecond, 5 * s, 0, 0},
		{"the machine slept", 3 * s, 3*s + s, 3*s + s, 0, s},
		{"the machine slept for an hour", 3 * s, 3*s + time.Hour, 3*s + time.Hour, 0, time.Hour},
		{"slept, and frozen besides", 20 * s, 80 * s, 80 * s, 15 * s, 75 * s},
		{"restored from a snapshot, and the time set", 4 * s, 4 * s, 90*s + 4*s, 0, 90 * s},
		{"the time set by a little", 5 * s, 5 * s, 9999 * time.Millisecond, 0, 0},
		{"the time set back", 5 * s, 5 * s, -time.Hour, 0, 0},
		{"no boot-time clock", 5 * s, 0, 5 * s, 0, 0},
	} {
		var v vigil
		r := reading{mono: time.Now(), wall: time.Now().Round(0), boot: time.Hour}
		if got := v.see(r, time.Hour); got != 0 {
			t.Errorf("%s: the first reading says %v", tt.name, got)
		}
		for range 2 { // each is measured from the one before
			r = reading{mono: r.mono.Add(tt.mono), wall: r.wall.Add(tt.wall), boot: r.boot + tt.boot}
			if got := v.see(r, tt.late); got != tt.want {
				t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
			}
		}
	}
}

func TestSuspect(t *testing.T) {
	for gone, want := range map[time.Duration]bool{
		0: false, 9999 * time.Millisecond: false, 10 * time.Second: true, time.Hour: true,
	} {
		if got := suspect(gone); got != want {
			t.Errorf("%v: %v", gone, got)
		}
	}
}
