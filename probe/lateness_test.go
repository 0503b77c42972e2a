// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

func TestExcuse(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name   string
		reason Reason
		took   time.Duration
		stall  time.Duration
		want   Reason
	}{
		{"T05 a plain timeout", Timeout, 1000 * ms, 0, Timeout},
		{"T05 stalled up to the bound", Timeout, 1000 * ms, 250 * ms, Timeout},
		{"T05 stalled beyond the bound", Timeout, 1000 * ms, 251 * ms, Late},
		{"T05 ended at the bound", Timeout, 1250 * ms, 0, Timeout},
		{"T05 ended beyond the bound", Timeout, 1251 * ms, 0, Late},
		{"stopped for less than an interval", Timeout, 5999 * ms, 0, Late},
		{"T12 suspended", Timeout, 6000 * ms, 0, Suspended},
		{"T12 suspended, seen by the meter", Timeout, 5100 * ms, 5000 * ms, Suspended},
		{"closed while it stood still", Closed, 700 * ms, 600 * ms, Late},
		{"reset while it stood still", Reset, 700 * ms, 600 * ms, Late},
		{"closed", Closed, 700 * ms, 0, Closed},
		{"refused late", Refused, 4000 * ms, 4000 * ms, Refused},
		{"bad status late", BadStatus, 4000 * ms, 4000 * ms, BadStatus},
		{"not HTTP late", NotHTTP, 4000 * ms, 4000 * ms, NotHTTP},
		{"too large late", HeadersTooLarge, 4000 * ms, 4000 * ms, HeadersTooLarge},
		{"passed late", OK, 70000 * ms, 70000 * ms, OK},
		{"no resources late", NoResources, 4000 * ms, 4000 * ms, NoResources},
	} {
		start := time.Now()
		a := Attempt{Reason: tt.reason, Outcome: tt.reason.outcome(), Start: start, End: start.Add(tt.took)}
		if got := excuse(a, tt.stall); got.Reason != tt.want || got.Outcome != tt.want.outcome() || got.End != a.End {
			t.Errorf("%s: %+v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestMeterArithmetic drives the meter's clock by hand.
func TestMeterArithmetic(t *testing.T) {
	const ms = time.Millisecond
	var m stallMeter
	at := time.Now()
	// One period is what nobody was promised.
	mark := m.join(at)
	if got := m.leave(at.Add(stallPeriod), mark); got != 0 {
		t.Errorf("stalled %v within one period", got)
	}
	// The timer's tick is late itself: the end measures what is missing.
	mark = m.join(at)
	if got := m.leave(at.Add(stallPeriod+300*ms), mark); got != 300*ms {
		t.Errorf("stalled %v, want 300ms", got)
	}
	// Who joins after a stall, before the tick, has no share in it.
	first := m.join(at)
	second := m.join(at.Add(stallPeriod + 300*ms))
	if got := m.leave(at.Add(stallPeriod+310*ms), second); got != 10*ms {
		t.Errorf("the second stalled %v, want 10ms", got)
	}
	if got := m.leave(at.Add(stallPeriod+310*ms), first); got != 310*ms {
		t.Errorf("the first stalled %v, want 310ms", got)
	}
}

// TestMeterInBubble: where the process runs whenever it wants to, nothing is
// late, however long it takes; and the timer ends with the last to leave.
func TestMeterInBubble(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var m stallMeter
		for range 3 {
			mark := m.join(time.Now())
			other := m.join(time.Now())
			<-time.After(10 * time.Second)
			if got := m.leave(time.Now(), other); got != 0 {
				t.Errorf("stalled %v", got)
			}
			<-time.After(time.Second)
			if got := m.leave(time.Now(), mark); got != 0 {
				t.Errorf("stalled %v", got)
			}
			if m.timer.Stop() {
				t.Error("the timer runs with nobody there")
			}
			<-time.After(time.Minute)
		}
	})
}
