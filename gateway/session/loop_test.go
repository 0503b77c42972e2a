// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	supervisorv1 "github.com/sandbox-agent/sandbox-agent/api/supervisor/v1"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/mux"
	"github.com/sandbox-agent/sandbox-agent/mux/muxtest"
	"github.com/sandbox-agent/sandbox-agent/probe"
	"github.com/sandbox-agent/sandbox-agent/report"
	"github.com/sandbox-agent/sandbox-agent/report/wire"
)

// loop is an agent of sandbox-1 made of its real parts: it probes on schedule,
// judges, reports and redials. What its services answer is up to the test.
type loop struct {
	w         *world
	instance  string
	tracker   *report.Tracker
	scheduler *probe.Scheduler
	stop      func()
	left      chan struct{} // its last report was acknowledged

	mu      sync.Mutex
	targets map[uint16]func() (probe.Reason, time.Duration)
	link    *muxtest.Conn
	sent    []time.Time
}

func newLoop(t *testing.T, w *world, instance string, targets map[uint16]func() (probe.Reason, time.Duration)) *loop {
	a := &loop{w: w, instance: instance, tracker: report.NewTracker(), left: make(chan struct{}), targets: targets}
	a.scheduler = probe.NewScheduler(probe.SchedulerConfig{Attempt: a.attempt, Sink: a.tracker, Phase: 1700 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = a.scheduler.Run(ctx) })
	wg.Go(func() { a.run(ctx, t) })
	a.stop = func() { cancel(); wg.Wait() }
	t.Cleanup(a.stop)
	return a
}

// attempt asks the test, and takes as long as it says.
func (a *loop) attempt(ctx context.Context, target probe.Target) probe.Attempt {
	start := time.Now()
	a.mu.Lock()
	reason, takes := a.targets[target.Port]()
	a.mu.Unlock()
	timer := time.NewTimer(takes)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		reason = probe.Internal
	}
	end := time.Now()
	at := probe.Attempt{Outcome: probe.Fail, Reason: reason, Start: start, End: end, Latency: end.Sub(start)}
	switch reason {
	case probe.OK:
		at.Outcome, at.Code = probe.Pass, 200
	case probe.Internal:
		at.Outcome = probe.Inconclusive
	case probe.BadStatus:
		at.Code = 503
	}
	return at
}

// run keeps a session, until ctx ends or the last report was acknowledged.
func (a *loop) run(ctx context.Context, t *testing.T) {
	for ctx.Err() == nil {
		near, far := net.Pipe()
		link := muxtest.Faulty(near)
		refused := a.w.open(hello(a.w.token(t, "sandbox-1", 3), a.instance), func(cfg mux.Config) (*mux.Session, error) {
			return mux.NewGatewaySession(far, cfg)
		})
		if refused == nil {
			a.mu.Lock()
			a.link = link
			a.mu.Unlock()
			s, err := mux.NewAgentSession(link, mux.Config{})
			if err != nil {
				t.Error(err)
				return
			}
			if a.serve(ctx, t, s) == nil {
				close(a.left)
				return
			}
		}
		wait(ctx, 300*time.Millisecond)
	}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// transport carries the reports of one session.
type transport struct {
	loop   *loop
	stream supervisorv1.Supervisor_ConnectClient
	acks   chan uint64
}

func (tr *transport) Send(r report.Report) error {
	tr.loop.mu.Lock()
	tr.loop.sent = append(tr.loop.sent, time.Now())
	tr.loop.mu.Unlock()
	return tr.stream.Send(&supervisorv1.AgentMessage{Message: &supervisorv1.AgentMessage_Report{Report: wire.Encode(r)}})
}

func (tr *transport) Acks() <-chan uint64 { return tr.acks }

func (a *loop) serve(ctx context.Context, t *testing.T, s *mux.Session) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer s.Close()
	stream, err := supervisorv1.NewSupervisorClient(overControl(t, s)).Connect(ctx)
	if err != nil {
		return err
	}
	m, err := stream.Recv()
	if err != nil {
		return err
	}
	opened := time.Now()
	a.desire(t, m.GetDesired())
	a.scheduler.ProbeNow()
	tr := &transport{loop: a, stream: stream, acks: make(chan uint64, 10)}
	received := make(chan struct{})
	go func() {
		defer close(received)
		for {
			m, err := stream.Recv()
			if err != nil {
				cancel(err)
				return
			}
			if m.GetAck() != nil {
				tr.acks <- m.GetAck().GetSequence()
			}
			if m.GetDesired() != nil {
				a.desire(t, m.GetDesired())
			}
		}
	}()
	err = report.Publish(ctx, tr, a.tracker, opened, a.scheduler.ProbeNow)
	cancel(err)
	_ = s.Close()
	<-received
	return err
}

func (a *loop) desire(t *testing.T, m *supervisorv1.DesiredState) {
	services, bad, err := wire.DecodeDesired(m)
	if err != nil || len(bad) > 0 {
		t.Errorf("desired state: %v %v", bad, err)
	}
	a.scheduler.SetServices(services)
}

// reported returns how many reports were sent.
func (a *loop) reported() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.sent)
}

// stall lets nothing through the agent's present connection until the returned
// function is called.
func (a *loop) stall() (resume func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	link := a.link
	link.Stall()
	return link.Resume
}

// cut ends the agent's present connection, as a network does.
func (a *loop) cut() {
	a.mu.Lock()
	link := a.link
	a.mu.Unlock()
	link.Cut()
	testkit.Wait()
}
