// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
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
	// Attempt makes one attempt within about Timeout. It is called from many
	// goroutines.
	Attempt func(context.Context, Target) Attempt
	// Sink takes the results.
	Sink Sink
	// Phase is how long after the start of Run the first round begins.
	Phase time.Duration
	// OnAttempt, if set, is called for every attempt, from the loop.
	OnAttempt func(Service, Attempt)
	// OnLate, if set, is told how late each round began, from the loop.
	OnLate func(time.Duration)
}

// Scheduler attempts services on time.
type Scheduler struct {
	config   SchedulerConfig
	services *latest.Cell[[]Service]
	probe    chan struct{}
}

// NewScheduler returns a scheduler without services.
func NewScheduler(config SchedulerConfig) *Scheduler {
	return &Scheduler{config: config, services: latest.New[[]Service](), probe: make(chan struct{}, 1)}
}

// SetServices replaces the list. The newest list wins.
func (s *Scheduler) SetServices(services []Service) { s.services.Put(services) }

// ProbeNow asks for an extra round at once.
func (s *Scheduler) ProbeNow() {
	select {
	case s.probe <- struct{}{}:
	default:
	}
}

// Run makes attempts until ctx ends, and returns nil then.
func (s *Scheduler) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
