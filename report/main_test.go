// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func service(name string, revision uint64) probe.Service {
	return probe.Service{Name: name, Revision: revision, Target: probe.Target{Port: 8080}}
}

// passed is the verdict after one pass that began at start and took took.
func passed(start time.Time, took time.Duration) probe.Verdict {
	return observed(probe.Pass, start, took)
}

func observed(o probe.Outcome, start time.Time, took time.Duration) probe.Verdict {
	v, _ := probe.NewJudge(start).Observe(probe.Attempt{Outcome: o, Start: start, End: start.Add(took), Latency: took}, false)
	return v
}

// sent is a report that a transport was given.
type sent struct {
	Report
	at time.Time
}

// transport records reports. It acknowledges them by itself, after delay, if
// told to.
type transport struct {
	acks  chan uint64
	auto  bool
	delay time.Duration
	fail  error

	mu      sync.Mutex
	reports []sent
}

func newTransport() *transport { return &transport{acks: make(chan uint64, 100)} }

func (t *transport) Send(r Report) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reports = append(t.reports, sent{r, time.Now()})
	if t.auto {
		time.AfterFunc(t.delay, func() { t.acks <- r.Sequence })
	}
	return t.fail
}

func (t *transport) Acks() <-chan uint64 { return t.acks }

// sent returns the reports so far.
func (t *transport) sent() []sent {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]sent(nil), t.reports...)
}

// last returns the newest report, which must be the nth.
func (t *transport) last(tb testing.TB, n int) sent {
	tb.Helper()
	all := t.sent()
	if len(all) != n {
		tb.Fatalf("%d reports were sent, want %d", len(all), n)
	}
	return all[n-1]
}

// publishing is a Publish under way in a bubble.
type publishing struct {
	*transport
	tracker *Tracker
	cancel  context.CancelCauseFunc
	ended   chan error
	again   atomic.Int64 // how often it wanted another observation
}

func publish(t *testing.T, tr *transport, tracker *Tracker) *publishing {
	ctx, cancel := context.WithCancelCause(context.Background())
	p := &publishing{transport: tr, tracker: tracker, cancel: cancel, ended: make(chan error, 1)}
	go func() { p.ended <- Publish(ctx, tr, tracker, time.Now(), func() { p.again.Add(1) }) }()
	t.Cleanup(func() { cancel(nil) })
	testkit.Wait()
	return p
}

// ack acknowledges a report and lets the publisher act.
func (p *publishing) ack(sequence uint64) {
	p.acks <- sequence
	testkit.Wait()
}

// running fails unless Publish still runs.
func (p *publishing) running(t *testing.T) {
	t.Helper()
	testkit.Wait()
	select {
	case err := <-p.ended:
		t.Fatalf("Publish has returned: %v", err)
	default:
	}
}

// returned is what Publish has returned.
func (p *publishing) returned(t *testing.T) error {
	t.Helper()
	testkit.Wait()
	select {
	case err := <-p.ended:
		return err
	default:
		t.Fatal("Publish still runs")
		return nil
	}
}
