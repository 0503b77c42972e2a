// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/probe"
)

// newWorld runs a scheduler in the test's bubble. The nth attempt of all
// passes after latency(n).
func newWorld(t *testing.T, sink probe.Sink, latency func(n int) time.Duration) *probe.Scheduler {
	var n atomic.Int64
	s := probe.NewScheduler(probe.SchedulerConfig{
		Sink: sink,
		Attempt: func(ctx context.Context, _ probe.Target) probe.Attempt {
			start := time.Now()
			timer := time.NewTimer(latency(int(n.Add(1))))
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
			end := time.Now()
			return probe.Attempt{Outcome: probe.Pass, Reason: probe.OK, Code: 200, Start: start, End: end, Latency: end.Sub(start)}
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return s
}
