// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"testing"
	"time"
)

func TestQuickDelay(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name   string
		passed bool
		made   int
		age    time.Duration
		latest Reason
		want   time.Duration // 0: none
	}{
		{"first", false, 0, 0, Refused, 100 * ms},
		{"second", false, 1, 100 * ms, Timeout, 150 * ms},
		{"third", false, 2, 250 * ms, BadStatus, 225 * ms},
		{"sixth", false, 5, 0, Late, 759375 * time.Microsecond},
		{"seventh", false, 6, 0, Refused, 1000 * ms},
		{"thousandth", false, 1000, 59 * time.Second, NoResources, 1000 * ms},
		{"at the end of the quick time", false, 60, quickFor - 1, BadStatus, 1000 * ms},
		{"answers and fails, after it", false, 60, quickFor, BadStatus, 0},
		{"hangs, after it", false, 60, quickFor, Timeout, 0},
		{"not observed, after it", false, 60, quickFor, NoResources, 0},
		{"refused, after it", false, 60, quickFor, Refused, 1000 * ms},
		{"refused, a day after it", false, 60, 24 * time.Hour, Refused, 1000 * ms},
		{"passed", true, 0, 0, OK, 0},
		{"passed once, refused since", true, 60, time.Hour, Refused, 0},
	} {
		got, ok := quickDelay(tt.passed, tt.made, tt.age, tt.latest)
		if ok != (tt.want != 0) || ok && got != tt.want {
			t.Errorf("%s: %v, %v, want %v", tt.name, got, ok, tt.want)
		}
	}
}

func TestQuickFits(t *testing.T) {
	at := time.Now()
	for _, tt := range []struct {
		latency, until time.Duration
		want           bool
	}{
		{0, 51 * time.Millisecond, true},
		{0, 50 * time.Millisecond, false},
		{time.Second, 1551 * time.Millisecond, true},
		{time.Second, 1550 * time.Millisecond, false},
		{time.Minute, 5 * time.Second, false},
		{0, -time.Second, false},
	} {
		if got := quickFits(at, tt.latency, at.Add(tt.until)); got != tt.want {
			t.Errorf("an attempt of %v, %v before a round: %v", tt.latency, tt.until, got)
		}
	}
}

func TestNextRound(t *testing.T) {
	due := time.Now()
	for _, tt := range []struct{ late, want time.Duration }{
		{0, 5 * time.Second},
		{time.Millisecond, 5 * time.Second},
		{2500 * time.Millisecond, 5 * time.Second},
		{2501 * time.Millisecond, 10 * time.Second},
		{4 * time.Second, 10 * time.Second},
		{5 * time.Second, 10 * time.Second},
		{7500 * time.Millisecond, 10 * time.Second},
		{60 * time.Second, 65 * time.Second},
		{-time.Second, 5 * time.Second},
		{-time.Hour, 5 * time.Second},
	} {
		if got := nextRound(due, due.Add(tt.late)).Sub(due); got != tt.want {
			t.Errorf("a round %v late is followed by one at %v, want %v", tt.late, got, tt.want)
		}
	}
}
