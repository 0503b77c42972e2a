// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/probe"
	"github.com/sandbox-agent/sandbox-agent/report"
)

// play is a scenario under way: an agent, a gateway, and one service that the
// test breaks and mends.
type play struct {
	*loop
	t        *testing.T
	revision uint64
	began    time.Time
	age      time.Duration // the greatest of any answer that was a verdict

	serving sync.Mutex
	reason  probe.Reason // what the service answers with
	takes   time.Duration
}

func newPlay(t *testing.T) *play {
	p := &play{t: t, revision: 11, began: time.Now(), reason: probe.Refused}
	p.loop = newLoop(t, newWorld(t), "instance-1", map[uint16]func() (probe.Reason, time.Duration){
		8080: p.answer, 9090: p.answer,
	})
	testkit.Wait()
	return p
}

func (p *play) answer() (probe.Reason, time.Duration) {
	p.serving.Lock()
	defer p.serving.Unlock()
	return p.reason, p.takes
}

// now makes the service answer with reason from now on.
func (p *play) now(reason probe.Reason, takes time.Duration) {
	p.serving.Lock()
	defer p.serving.Unlock()
	p.reason, p.takes = reason, takes
}

// seen is what a reader gets at present.
func (p *play) seen() string {
	a := p.w.answer("id-web", p.revision)
	if a.Reason == health.NoReason {
		p.age = max(p.age, time.Since(a.Observation.Conclusive))
	}
	return fmt.Sprintf("%v %v", a.State, a.Reason)
}

// becomes fails unless what is seen changes to want within most, but not
// before least, and to nothing else before.
func (p *play) becomes(want string, least, most time.Duration) {
	p.t.Helper()
	from, began := p.seen(), time.Now()
	for {
		got, took := p.seen(), time.Since(began)
		switch {
		case got == want && took < least:
			p.t.Fatalf("at %v: %q after %v already", began.Sub(p.began), got, took)
		case got == want:
			return
		case got != from || took > most:
			p.t.Fatalf("at %v: %q after %v, want %q", began.Sub(p.began), got, took, want)
		}
		testkit.Advance(20 * time.Millisecond)
	}
}

// holds fails if anything but want is seen for d.
func (p *play) holds(want string, d time.Duration) {
	p.t.Helper()
	for began := time.Now(); ; testkit.Advance(20 * time.Millisecond) {
		if got := p.seen(); got != want {
			p.t.Fatalf("at %v: %q, want %q for %v", time.Since(p.began), got, want, d)
		}
		if time.Since(began) >= d {
			return
		}
	}
}

const (
	verdictGood = "HEALTHY "
	verdictBad  = "UNHEALTHY "
	undecided   = "UNKNOWN "
)

// Ten minutes of an agent and a gateway, made of everything but a network and
// real time: probes, judgement, reports, gRPC over the multiplexer, registry,
// cache and answers.
func TestTenMinutes(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		p := newPlay(t)
		p.becomes(undecided, 0, 100*time.Millisecond) // refused once
		p.becomes(verdictBad, 11*time.Second, 12*time.Second)
		p.holds(verdictBad, 10*time.Second)

		p.now(probe.OK, 3*time.Millisecond)
		p.becomes(verdictGood, 0, 1100*time.Millisecond) // refused connects are repeated every second
		p.age = 0
		before := p.reported()
		p.holds(verdictGood, 3*time.Minute)
		if n := p.reported() - before; n < 35 || n > 37 { // T08
			t.Errorf("%d reports in three quiet minutes, want 36", n)
		}
		if p.age > 6*time.Second {
			t.Errorf("an answer of %v", p.age)
		}

		p.now(probe.Timeout, time.Second)
		p.becomes(verdictBad, 10*time.Second, 16500*time.Millisecond)
		p.now(probe.OK, 0)
		p.becomes(verdictGood, 0, 5100*time.Millisecond)
		for range 3 { // T07: two failures are none
			p.now(probe.BadStatus, 0)
			p.holds(verdictGood, 9900*time.Millisecond)
			p.now(probe.OK, 0)
			p.holds(verdictGood, 6*time.Second)
		}

		p.configurationChanges()
		p.linksFail()
		p.agentsGo()
		if took := time.Since(p.began); took < 5*time.Minute || took > 10*time.Minute {
			t.Errorf("the play took %v", took)
		}
	})
}

// configurationChanges: unknown at once, and right within a moment.
func (p *play) configurationChanges() {
	changed := service("web", 12, 9090)
	p.w.dir.change(func(d *directory) { d.services["sandbox-1"] = []Service{changed} })
	p.revision = 12
	if got := p.seen(); got != "UNKNOWN ConfigurationChanged" {
		p.t.Fatalf("after a change: %q", got)
	}
	p.w.Refresh("sandbox-1")
	p.becomes(verdictGood, 0, 100*time.Millisecond)
	p.holds(verdictGood, 20*time.Second)
}

// linksFail: a short stall is nobody's business, a long one is unknown and then
// right again; never is the service said to be bad.
func (p *play) linksFail() {
	resume := p.stall()
	p.holds(verdictGood, 9*time.Second)
	resume()
	p.holds(verdictGood, 30*time.Second)

	p.stall() // until the agent gives the session up, 10 s after a report
	p.becomes("UNKNOWN SupervisorDisconnected", 10*time.Second, 15100*time.Millisecond)
	p.becomes(verdictGood, 0, 500*time.Millisecond)
	p.holds(verdictGood, 30*time.Second)

	p.cut()
	if got := p.seen(); got != "UNKNOWN SupervisorDisconnected" {
		p.t.Fatalf("after a cut: %q", got)
	}
	p.becomes(verdictGood, 0, 500*time.Millisecond)
	p.holds(verdictGood, 10*time.Second)
}

// agentsGo: an agent that leaves is gone at once; its successor speaks for
// itself.
func (p *play) agentsGo() {
	p.tracker.Stop(report.Stop{})
	testkit.Wait()
	select {
	case <-p.left:
	default:
		p.t.Fatal("the last report was not acknowledged")
	}
	p.holds("UNKNOWN SupervisorDisconnected", 3*time.Second)
	p.stop()
	p.now(probe.OK, 500*time.Millisecond)
	next := newLoop(p.t, p.w, "instance-2", p.targets)
	testkit.Wait()
	if got := p.seen(); got != "UNKNOWN RuntimeReplaced" {
		p.t.Fatalf("a new agent before its first attempt: %q", got)
	}
	p.becomes(verdictGood, 400*time.Millisecond, time.Second)
	p.holds(verdictGood, 20*time.Second)
	next.stop()
	testkit.Wait()
	p.holds("UNKNOWN SupervisorDisconnected", time.Second)
}
