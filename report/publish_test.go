// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

func TestTheNewestSnapshotWinsAndNothingIsQueued(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		web := service("web", 1)
		p := publish(t, newTransport(), NewTracker())
		first := p.last(t, 1)
		if first.Sequence != 1 || first.Snapshot.Generation != 0 || !first.Made.Equal(first.at) {
			t.Fatalf("the session does not begin with the whole truth: %+v", first)
		}
		p.tracker.Services([]probe.Service{web}, time.Now())
		for i := range 100 {
			p.tracker.Observed(web, passed(time.Now(), time.Duration(i)), true)
			p.tracker.RoundEnded()
			testkit.Advance(50 * time.Millisecond)
		}
		p.last(t, 1) // one report at a time
		p.ack(1)
		second := p.last(t, 2)
		if second.Sequence != 2 || second.Snapshot.Generation != p.tracker.Snapshot().Generation || second.AckSeen != 0 {
			t.Fatalf("not the newest: %+v", second)
		}
		p.ack(2)
		testkit.Advance(time.Minute)
		p.last(t, 2)
		p.running(t)
	})
}

// What is sent while a report is under way is sent after it, once.
func TestASignalDuringAReportIsNotLost(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		p := publish(t, newTransport(), NewTracker())
		p.tracker.RoundEnded()
		testkit.Wait()
		p.ack(1)
		p.last(t, 2)
		p.ack(2)
		p.last(t, 2)
	})
}

func TestNoAcknowledgementWithin10Seconds(t *testing.T) {
	for _, tc := range []struct {
		name string
		acks []uint64 // at 9 s
		want error
	}{
		{"none", nil, ErrNoAck},
		{"of no report", []uint64{0, 3, 1 << 63}, ErrNoAck},
		{"of an earlier report", []uint64{1, 1}, ErrNoAck},
		{"of an earlier report and of this one", []uint64{1, 2, 2}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				p := publish(t, newTransport(), NewTracker())
				testkit.Advance(9 * time.Second)
				p.ack(1)
				p.tracker.RoundEnded()
				testkit.Wait()
				p.last(t, 2)
				testkit.Advance(9 * time.Second)
				for _, seq := range tc.acks {
					p.ack(seq)
				}
				testkit.Advance(999 * time.Millisecond)
				p.running(t)
				testkit.Advance(time.Millisecond)
				if tc.want == nil {
					testkit.Advance(time.Hour)
					p.running(t)
					return
				}
				if err := p.returned(t); !errors.Is(err, tc.want) {
					t.Errorf("Publish returned %v, want %v", err, tc.want)
				}
			})
		})
	}
}

func TestPublishEndsWithItsCause(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		cause := errors.New("moved")
		p := publish(t, newTransport(), NewTracker())
		p.cancel(cause)
		if err := p.returned(t); !errors.Is(err, cause) {
			t.Errorf("Publish returned %v, want the context's cause", err)
		}
		lost := newTransport()
		lost.fail = errors.New("lost")
		if err := publish(t, lost, NewTracker()).returned(t); !errors.Is(err, lost.fail) {
			t.Errorf("Publish returned %v, want the transport's error", err)
		}
	})
}

func TestTheStopIsTheLastReport(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		p := publish(t, newTransport(), NewTracker())
		p.tracker.Stop(Stop{MainExited: true, ExitCode: 7})
		testkit.Wait()
		p.ack(1) // the report before it
		last := p.last(t, 2)
		if last.Snapshot.Stop == nil || *last.Snapshot.Stop != (Stop{true, 7}) {
			t.Fatalf("the last report is %+v", last)
		}
		p.running(t)
		p.ack(1)
		p.running(t)
		p.ack(2)
		if err := p.returned(t); err != nil {
			t.Errorf("Publish returned %v", err)
		}
	})
}

// The stop of an agent whose session breaks before it is acknowledged is the
// first thing that its next session says.
func TestTheStopIsRepeated(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		tracker := NewTracker()
		p := publish(t, newTransport(), tracker)
		p.ack(1)
		tracker.Stop(Stop{})
		testkit.Wait()
		p.last(t, 2)
		p.cancel(errors.New("connection lost"))
		p.returned(t)

		again := publish(t, newTransport(), tracker)
		if again.last(t, 1).Snapshot.Stop == nil {
			t.Fatal("the next session does not say that the agent stops")
		}
		again.ack(1)
		if err := again.returned(t); err != nil {
			t.Errorf("Publish returned %v", err)
		}
	})
}

// T11: a report that was lost with its session is repeated by the next one as a
// whole, the empty list too.
func TestALostReportIsRepeated(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		web := service("web", 1)
		tracker := NewTracker()
		tracker.Services([]probe.Service{web}, time.Now())
		tracker.Observed(web, passed(time.Now(), 0), true)
		<-tracker.Ready() // an earlier session has said so
		p := publish(t, newTransport(), tracker)
		p.ack(1)
		tracker.Services(nil, time.Now())
		testkit.Wait()
		lost := p.last(t, 2)
		testkit.Advance(AckTimeout)
		if err := p.returned(t); !errors.Is(err, ErrNoAck) {
			t.Fatalf("Publish returned %v", err)
		}
		again := publish(t, newTransport(), tracker).last(t, 1)
		if again.Sequence != 1 || again.Snapshot.Generation != lost.Snapshot.Generation || len(again.Snapshot.Entries) != 0 {
			t.Errorf("the next session says %+v, want generation %d with no service", again, lost.Snapshot.Generation)
		}
	})
}

// The report names the acknowledgement that had come before its observations,
// and its age; the session's opening is number 0.
func TestReportsNameTheAcknowledgementBefore(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		web := service("web", 1)
		tracker := NewTracker()
		tracker.Services([]probe.Service{web}, time.Now())
		<-tracker.Ready()
		p := publish(t, newTransport(), tracker)
		testkit.Advance(time.Second)
		p.ack(1) // at 1 s
		testkit.Advance(time.Second)
		p.ack(99) // of no report
		testkit.Advance(3 * time.Second)
		began := time.Now() // 5 s
		testkit.Advance(100 * time.Millisecond)
		tracker.Observed(web, passed(began, 100*time.Millisecond), true)
		testkit.Wait()
		if r := p.last(t, 2); r.AckSeen != 1 || r.SinceAck != 4100*time.Millisecond {
			t.Errorf("names acknowledgement %d of %v ago, want 1 of 4.1 s ago", r.AckSeen, r.SinceAck)
		}
		testkit.Advance(time.Second)
		p.ack(2) // at 6.1 s, after the attempt
		tracker.RoundEnded()
		testkit.Wait()
		if r := p.last(t, 3); r.AckSeen != 1 || r.SinceAck != 5100*time.Millisecond {
			t.Errorf("names acknowledgement %d of %v ago, want 1 of 5.1 s ago", r.AckSeen, r.SinceAck)
		}
	})
}

// quiet runs a scheduler whose attempts take latency, and a session that
// acknowledges everything, and returns what it sent in the ten minutes after
// the first.
func quiet(t *testing.T, services []probe.Service, latency func(n int) time.Duration) []sent {
	tracker := NewTracker()
	world := newWorld(t, tracker, latency)
	world.SetServices(services)
	tr := newTransport()
	tr.auto, tr.delay = true, 20*time.Millisecond
	p := publish(t, tr, tracker)
	testkit.Advance(time.Minute)
	before := len(p.sent())
	testkit.Advance(10 * time.Minute)
	p.running(t)
	return p.sent()[before:]
}

// T08: refresh and change are two clocks. A quiet sandbox sends a report every
// 5 s, no more and no less, whatever its services' latencies do.
func TestTenQuietMinutes(t *testing.T) {
	services := []probe.Service{service("", 1), service("api", 2), service("web", 3)}
	for _, tc := range []struct {
		name     string
		services []probe.Service
		latency  func(n int) time.Duration
		want     int
	}{
		{"no services", nil, nil, 120},
		{"varying latencies", services, func(n int) time.Duration { return time.Duration(n%300) * time.Millisecond }, 120},
		// Latencies above 400 ms cost a second report: the others do not wait.
		{"slow ones", services, func(n int) time.Duration { return 700 * time.Millisecond }, 240},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				reports := quiet(t, tc.services, tc.latency)
				if n := len(reports); n < tc.want-1 || n > tc.want+1 {
					t.Errorf("%d reports in 10 min, want %d", n, tc.want)
				}
				for i := 1; i < len(reports); i++ {
					if gap := reports[i].at.Sub(reports[i-1].at); gap > 5400*time.Millisecond {
						t.Errorf("no report for %v", gap)
					}
					for _, e := range reports[i].Snapshot.Entries {
						if age := reports[i].at.Sub(e.Verdict.Conclusive); age > 6*time.Second || e.Verdict.State != probe.Healthy {
							t.Errorf("%q is %v, %v old", e.Service.Name, e.Verdict.State, age)
						}
					}
				}
			})
		})
	}
}
