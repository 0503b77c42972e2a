// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

// TestAgain: another observation is worth while when the acknowledgement that a
// report names was under way for long, and the one for it was not. Each trip is
// of one report, sent at once after the acknowledgement before.
func TestAgain(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name  string
		trips []time.Duration
		want  []bool
	}{
		{"quick ones", []time.Duration{ms, 3 * ms, ms}, []bool{false, false, false}},
		{"slow ones", []time.Duration{3000 * ms, 3000 * ms, 2500 * ms}, []bool{false, false, false}},
		{"T12 frozen before the acknowledgement", []time.Duration{ms, 9000 * ms, ms, ms}, []bool{false, false, true, false}},
		{"a stall of a second", []time.Duration{ms, 1001 * ms, ms, ms}, []bool{false, false, true, false}},
		{"a stall of less", []time.Duration{ms, 1000 * ms, ms, ms}, []bool{false, false, false, false}},
		{"a stall that ends by and by", []time.Duration{ms, 5000 * ms, 2500 * ms, ms}, []bool{false, false, true, true}},
	} {
		now := time.Now()
		p := NewPacer(now)
		for i, trip := range tt.trips {
			p.Ready()
			r, ok := p.Next(func() Snapshot { return Snapshot{} }, now)
			if !ok || p.Again() {
				t.Fatalf("%s: no report, or asked again without an acknowledgement", tt.name)
			}
			now = now.Add(trip)
			p.Acked(r.Sequence, now)
			if got := p.Again(); got != tt.want[i] {
				t.Errorf("%s: after trip %d %v, want %v", tt.name, i, got, tt.want[i])
			}
			if p.Again() {
				t.Errorf("%s: asked twice", tt.name)
			}
		}
	}
}

// TestPublishObservesAgain: and not for every acknowledgement.
func TestPublishObservesAgain(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		tracker := NewTracker()
		p := publish(t, newTransport(), tracker)
		for i, trip := range []time.Duration{0, 9 * time.Second, 0, 0} {
			if i > 0 {
				tracker.RoundEnded()
				testkit.Wait()
			}
			testkit.Advance(trip)
			p.ack(uint64(i + 1))
			want := int64(0)
			if i >= 2 {
				want = 1
			}
			if got := p.again.Load(); got != want {
				t.Errorf("after acknowledgement %d: wanted %d more observations, want %d", i+1, got, want)
			}
		}
		p.running(t)
	})
}

// again sends a report of one verdict, which is acknowledged after trip, and says
// whether another observation is worth while.
func again(t *testing.T, p *Pacer, now *time.Time, trip time.Duration, v probe.Verdict) bool {
	t.Helper()
	p.Ready()
	r, ok := p.Next(func() Snapshot { return Snapshot{Entries: []Entry{{Verdict: v}}} }, *now)
	if !ok {
		t.Fatal("no report")
	}
	*now = now.Add(trip)
	p.Acked(r.Sequence, *now)
	return p.Again()
}

// T12: a report that left between the slow acknowledgement and the first new
// observation proves nothing new, and does not use the second look up.
func TestAgainIsDecidedByWhatTheReportNames(t *testing.T) {
	now := time.Now()
	p := NewPacer(now)
	began := now // of the attempt in the snapshot
	report := func(trip time.Duration) bool {
		t.Helper()
		return again(t, p, &now, trip, probe.Verdict{
			Latest: probe.Attempt{Start: began}, Observed: began, Conclusive: began, ConclusiveStart: began,
		})
	}
	if report(9 * time.Second) {
		t.Fatal("again, after an acknowledgement that was slow itself")
	}
	if report(time.Millisecond) {
		t.Fatal("again, though the report held what was observed before")
	}
	began = now.Add(-500 * time.Microsecond) // after the slow acknowledgement, before the quick one
	if !report(time.Millisecond) {
		t.Fatal("not again, though the report names the slow acknowledgement")
	}
}

// T12: looking again that cannot renew the oldest observation, because its
// attempt is in flight or no attempt can tell, is asked for once: a report that
// says the same is answered within a millisecond, and each answer would ask anew.
// It is asked for again when the attempt that was in flight has ended.
func TestAgainIsNotAskedForWithoutEnd(t *testing.T) {
	now := time.Now()
	p := NewPacer(now)
	oldest := now
	report := func(trip time.Duration) bool {
		t.Helper()
		return again(t, p, &now, trip, probe.Verdict{
			Latest: probe.Attempt{Start: now}, Observed: now, Conclusive: oldest, ConclusiveStart: oldest,
		})
	}
	report(2 * time.Second)
	oldest = now // the slow acknowledgement is the last before it
	if !report(time.Millisecond) {
		t.Fatal("not again, though the report names the slow acknowledgement")
	}
	for i := range 100 {
		if report(time.Millisecond) {
			t.Fatalf("asked for again after report %d that renewed nothing", i)
		}
	}
	oldest = oldest.Add(time.Microsecond) // began before the first quick acknowledgement
	if !report(time.Millisecond) {
		t.Fatal("not again, though the attempt that was in flight has ended")
	}
	oldest = now
	if report(time.Millisecond) {
		t.Fatal("again, though the report names a quick acknowledgement")
	}
}
