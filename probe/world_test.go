// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

// answer is what a scripted target does: it takes its time, unless it heeds a
// cancelled context, and gives a reason.
type answer struct {
	reason Reason
	takes  time.Duration
	deaf   bool // does not heed the context
	panics bool
}

var (
	passes  = answer{reason: OK, takes: 2 * time.Millisecond}
	refuses = answer{reason: Refused}
	fails   = answer{reason: BadStatus, takes: 2 * time.Millisecond}
	silent  = answer{reason: Timeout, takes: AttemptTimeout}
)

// world is a scheduler in fake time, with scripted targets, and a record of all
// that it did. Its instants count from the start. The test holds the lock
// whenever it runs, and lets go of it while time passes.
type world struct {
	t         *testing.T
	start     time.Time
	scheduler *Scheduler
	cancel    context.CancelFunc
	stopped   chan error
	onResult  func(Service, Attempt) // from the loop
	slept     bool                   // what the loop is told when it asks next
	turnLate  time.Duration          // greatest lateness of a turn

	sync.Mutex
	answers   map[uint16]answer // by port
	running   map[uint16]int
	together  int // most attempts at one time
	attempts  map[uint16][]time.Duration
	lists     [][]Service
	events    []event
	observed  map[Service]time.Duration // last
	rounds    []time.Duration
	lates     []time.Duration
	cancelled int
}

// event is an observation.
type event struct {
	at      time.Duration
	service Service
	verdict Verdict
	changed bool
}

// inWorld runs f in a bubble, beside a scheduler whose rounds begin at phase.
func inWorld(t *testing.T, phase time.Duration, f func(w *world)) {
	testkit.Bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &world{
			t: t, start: time.Now(), cancel: cancel, stopped: make(chan error, 1),
			observed: map[Service]time.Duration{},
			answers:  map[uint16]answer{}, running: map[uint16]int{}, attempts: map[uint16][]time.Duration{},
		}
		w.scheduler = NewScheduler(SchedulerConfig{
			Attempt: w.attempt, Sink: w, Phase: phase,
			OnAttempt: func(s Service, a Attempt) {
				w.Lock()
				f := w.onResult
				w.Unlock()
				if f != nil {
					f(s, a)
				}
			},
			OnLate: func(late time.Duration) {
				w.Lock()
				defer w.Unlock()
				w.lates = append(w.lates, late)
			},
			Slept: func(now time.Time, late time.Duration) (time.Duration, bool) {
				w.Lock()
				defer w.Unlock()
				if !now.Equal(time.Now()) {
					t.Errorf("%v: asked at %v", w.now(), now)
				}
				w.turnLate = max(w.turnLate, late)
				defer func() { w.slept = false }()
				return 0, w.slept
			},
		})
		go func() { w.stopped <- w.scheduler.Run(ctx) }()
		w.Lock()
		defer w.Unlock()
		f(w)
		w.stop()
	})
}

func (w *world) stop() {
	w.Unlock()
	defer w.Lock()
	w.cancel()
	select {
	case err := <-w.stopped:
		if err != nil {
			w.t.Errorf("Run = %v", err)
		}
		w.stopped <- nil
	case <-time.After(time.Minute):
		w.t.Fatal("Run does not end")
	}
}

func (w *world) now() time.Duration { return time.Since(w.start) }

// until lets the time pass.
func (w *world) until(at time.Duration) {
	w.t.Helper()
	if at < w.now() {
		w.t.Fatalf("%v is over", at)
	}
	w.Unlock()
	defer w.Lock()
	if at > w.now() {
		<-time.After(at - w.now())
	}
	testkit.Wait()
}

// target scripts what a port does from now on.
func (w *world) target(port uint16, a answer) { w.answers[port] = a }

// expose sets a list of services, named and numbered after their ports.
func (w *world) expose(ports ...uint16) {
	var list []Service
	for _, p := range ports {
		list = append(list, serviceOn(p))
	}
	w.scheduler.SetServices(list)
	w.until(w.now())
}

func serviceOn(port uint16) Service {
	return Service{Name: fmt.Sprintf("s%d", port), Revision: uint64(port), Target: Target{Port: port}}
}

func (w *world) attempt(ctx context.Context, t Target) Attempt {
	w.Lock()
	// The variants of a service differ in hundreds.
	name := t.Port % 100
	if t.Port < 1000 {
		name = t.Port
	}
	if w.running[name]++; w.running[name] > 1 {
		w.t.Errorf("%v: two attempts of port %d", w.now(), t.Port)
	}
	total := 0
	for _, n := range w.running {
		total += n
	}
	w.together = max(w.together, total)
	w.attempts[t.Port] = append(w.attempts[t.Port], w.now())
	a := w.answers[t.Port]
	w.Unlock()
	defer func() {
		w.Lock()
		defer w.Unlock()
		w.running[name]--
	}()

	start := time.Now()
	if a.panics {
		panic("scripted")
	}
	if a.takes > 0 { // in a bubble, expired timers crash Go 1.26's race detector
		a = w.wait(ctx, a)
	}
	end := time.Now()
	return Attempt{Outcome: a.reason.outcome(), Reason: a.reason, Start: start, End: end, Latency: end.Sub(start)}
}

// wait lets the time of an attempt pass.
func (w *world) wait(ctx context.Context, a answer) answer {
	done := ctx.Done()
	if a.deaf {
		done = nil
	}
	select {
	case <-time.After(a.takes):
	case <-done:
		w.Lock()
		defer w.Unlock()
		w.cancelled++
		a.reason = Internal
	}
	return a
}

func (w *world) Services(list []Service, now time.Time) {
	w.Lock()
	defer w.Unlock()
	if !now.Equal(time.Now()) {
		w.t.Errorf("the list was taken over at %v, says %v", w.now(), now)
	}
	w.lists = append(w.lists, list)
}

func (w *world) Observed(s Service, v Verdict, changed bool) {
	w.Lock()
	defer w.Unlock()
	if len(w.lists) == 0 || !slices.Contains(w.lists[len(w.lists)-1], s) {
		w.t.Errorf("%v: observed %+v, which is not in the list", w.now(), s)
	}
	w.observed[s] = w.now()
	w.events = append(w.events, event{w.now(), s, v, changed})
}

func (w *world) RoundEnded() {
	w.Lock()
	defer w.Unlock()
	w.rounds = append(w.rounds, w.now())
}

// latest returns the verdict on a service that was observed last.
func (w *world) latest(name string) Verdict {
	for i := len(w.events) - 1; i >= 0; i-- {
		if w.events[i].service.Name == name {
			return w.events[i].verdict
		}
	}
	return Verdict{}
}

// changes returns when the state of a service changed, and to what.
func (w *world) changes(name string) string {
	text := ""
	for _, e := range w.events {
		if e.service.Name == name && e.changed {
			text += fmt.Sprintf("%v %v ", e.at, e.verdict.State)
		}
	}
	return text
}

// wantTimes compares instants, given in milliseconds.
func (w *world) wantTimes(what string, got []time.Duration, want ...int) {
	w.t.Helper()
	ok := len(got) == len(want)
	for i := 0; ok && i < len(want); i++ {
		ok = got[i] == time.Duration(want[i])*time.Millisecond
	}
	if !ok {
		w.t.Errorf("%s at %v, want %v ms", what, got, want)
	}
}
