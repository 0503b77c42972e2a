// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"slices"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/latest"
)

// Service is one service in one configuration.
type Service struct {
	// Name identifies the service within its sandbox. Empty is a name.
	Name string
	// Revision is unique per service and configuration: a new one is a new
	// configuration, which starts again at Unknown.
	Revision uint64
	Target   Target
}

// Sink takes what the scheduler sees. All methods are called from the
// scheduler's one loop, never concurrently, and must not block.
type Sink interface {
	// Services says that the whole list was taken over at now.
	Services(services []Service, now time.Time)
	// Observed says what the latest attempt made of a service, and whether
	// that changed its state. The service is one of the list that was taken
	// over last.
	Observed(service Service, verdict Verdict, changed bool)
	// RoundEnded says that the results of a round are in. It comes a second
	// time if some came late.
	RoundEnded()
}

// SchedulerConfig is what a Scheduler needs.
type SchedulerConfig struct {
	// Attempt makes one attempt within about AttemptTimeout. It is called from
	// many goroutines.
	Attempt func(context.Context, Target) Attempt
	// Sink takes the results.
	Sink Sink
	// Phase is how long after the start of Run the first round begins.
	Phase time.Duration
	// OnAttempt, if set, is called for every attempt, from the loop.
	OnAttempt func(Service, Attempt)
	// OnLate, if set, is told how late each round began, from the loop.
	OnLate func(time.Duration)
	// Slept, if set, is asked from the loop, whenever that turns and before it
	// does anything else, whether this process was suspended since the last
	// time, and how much of that the monotonic clock has missed. late is how
	// late the turn is. If it was, the attempts in flight are
	// dropped as inconclusive, fails before and after do not add up, and all
	// services are attempted at once.
	Slept func(now time.Time, late time.Duration) (asleep time.Duration, slept bool)
}

// Scheduler attempts services on time: all in one burst every Interval, and a
// service that has not passed yet more often. SetServices and ProbeNow may be
// called from any goroutine at any time, Run once.
type Scheduler struct {
	config   SchedulerConfig
	services *latest.Cell[[]Service]
	probe    chan struct{}
	look     chan struct{}
	results  chan result
	planner  *Planner
	scopes   map[*entry]scope
}

// scope is what the attempts of one service in one configuration run under.
type scope struct {
	ctx    context.Context
	cancel context.CancelFunc
}

// result is an attempt that has ended.
type result struct {
	planned Planned
	attempt Attempt
}

// NewScheduler returns a scheduler without services. It attempts nothing
// before Run.
func NewScheduler(config SchedulerConfig) *Scheduler {
	return &Scheduler{
		config:   config,
		services: latest.New[[]Service](),
		probe:    make(chan struct{}, 1),
		look:     make(chan struct{}, 1),
		results:  make(chan result, slots),
		scopes:   map[*entry]scope{},
	}
}

// SetServices replaces the list. The newest list wins, and one that is
// replaced before the loop saw it is never seen. Services that keep their
// configuration keep their verdict; all others begin at Unknown with an attempt
// at once. SetServices does not block, and keeps nothing of the slice.
func (s *Scheduler) SetServices(services []Service) { s.services.Put(slices.Clone(services)) }

// ProbeNow asks for an extra round of all services at once, which ends with
// RoundEnded like any other. Requests that the loop has not seen yet are one.
func (s *Scheduler) ProbeNow() { signal(s.probe) }

// Look makes the loop ask Slept: whoever calls it has a reason to believe that
// it would say yes.
func (s *Scheduler) Look() { signal(s.look) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run makes attempts until ctx ends. It returns nil then, after the attempts
// that were in flight have returned; their results are dropped.
func (s *Scheduler) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer s.join()
	defer cancel()
	s.planner = NewPlanner(s.config.Sink, time.Now().Add(s.config.Phase))
	timer := time.NewTimer(Interval)
	defer timer.Stop()
	for {
		for p, ok := s.planner.Next(time.Now()); ok; p, ok = s.planner.Next(time.Now()) {
			go s.attempt(s.scopes[p.entry].ctx, p)
		}
		wake := s.planner.Wake()
		happened, r := s.wait(ctx, timer, wake)
		s.slept(ctx, wake)
		switch happened {
		case turnEnd:
			return nil
		case turnList:
			s.replace(ctx)
		case turnProbe:
			s.planner.ProbeNow(time.Now())
		case turnResult:
			s.done(r)
		case turnTimer:
			s.due()
		case turnLook:
		}
	}
}

// turn is what makes the loop turn.
type turn int

const (
	turnEnd turn = iota
	turnList
	turnProbe
	turnLook
	turnResult
	turnTimer
)

// wait returns when something has happened, at wake at the latest.
func (s *Scheduler) wait(ctx context.Context, timer *time.Timer, wake time.Time) (turn, result) {
	wait := time.Until(wake)
	if wait <= 0 {
		return turnTimer, result{}
	}
	timer.Reset(wait)
	select {
	case <-ctx.Done():
		return turnEnd, result{}
	case <-s.services.Ready():
		return turnList, result{}
	case <-s.probe:
		return turnProbe, result{}
	case <-s.look:
		return turnLook, result{}
	case r := <-s.results:
		return turnResult, r
	case <-timer.C:
		return turnTimer, result{}
	}
}

// slept finds out whether this process was suspended while it wanted to wait
// until wake. It comes before whatever has happened meanwhile is looked at:
// results of attempts that were in flight may be among it.
func (s *Scheduler) slept(ctx context.Context, wake time.Time) {
	now := time.Now()
	if s.config.Slept == nil {
		return
	}
	asleep, slept := s.config.Slept(now, max(now.Sub(wake), 0))
	if !slept {
		return
	}
	came, went := s.planner.suspended(now, asleep)
	if s.config.OnAttempt != nil {
		for _, e := range came {
			s.config.OnAttempt(e.service, e.judge.Verdict().Latest)
		}
	}
	s.rescope(ctx, came, went)
}

// join waits for the attempts in flight.
func (s *Scheduler) join() {
	flying := s.planner.plan.flying
	for len(flying) > 0 {
		r := <-s.results
		delete(flying, r.planned.Service().Name)
	}
}

func (s *Scheduler) replace(ctx context.Context) {
	services, ok := s.services.Take()
	if !ok {
		return
	}
	came, went := s.planner.replace(services, time.Now())
	s.rescope(ctx, came, went)
}

// rescope cancels the attempts of entries that went, and lets those of entries
// that came begin.
func (s *Scheduler) rescope(ctx context.Context, came, went []*entry) {
	for _, e := range went {
		s.scopes[e].cancel()
		delete(s.scopes, e)
	}
	for _, e := range came {
		ctx, cancel := context.WithCancel(ctx)
		s.scopes[e] = scope{ctx, cancel}
	}
}

func (s *Scheduler) done(r result) {
	if s.config.OnAttempt != nil && s.planner.current(r.planned) {
		s.config.OnAttempt(r.planned.Service(), r.attempt)
	}
	s.planner.Done(r.planned, r.attempt, time.Now())
}

func (s *Scheduler) due() {
	late, began := s.planner.Due(time.Now())
	if began && s.config.OnLate != nil {
		s.config.OnLate(late)
	}
}

// attempt makes one attempt. A panic in it is a fault of this process, and no
// reason to stop observing.
func (s *Scheduler) attempt(ctx context.Context, p Planned) {
	r := result{planned: p}
	start := time.Now()
	defer func() {
		if recover() != nil {
			end := time.Now()
			r.attempt = Attempt{Outcome: Inconclusive, Reason: Internal, Start: start, End: end, Latency: end.Sub(start)}
		}
		s.results <- r
	}()
	r.attempt = s.config.Attempt(ctx, p.Service().Target)
}
