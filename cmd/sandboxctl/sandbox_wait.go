// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

// phasePoll is how often the phase of a sandbox is asked for: there is no watch
// of sandboxes.
const phasePoll = 250 * time.Millisecond

// waitSandbox waits until all services of a new sandbox are healthy or, if it
// has none, until it is ready itself. What it sees goes to standard error.
func (a *app) waitSandbox(ctx context.Context, c *sandbox.Client, resp *openshellv1.SandboxResponse, limit time.Duration) error {
	began := time.Now()
	name := resp.GetSandbox().GetMetadata().GetName()
	services := slices.Sorted(maps.Keys(resp.GetServiceUrls()))
	for _, service := range services {
		waited, err := a.wait(ctx, c, &sandboxv1.WaitServiceRequest{
			WorkspaceScope: a.scope(), Sandbox: name, Name: service, Timeout: durationpb.New(max(limit-time.Since(began), 0)),
		})
		if err != nil {
			return err
		}
		waited.Elapsed = durationpb.New(time.Since(began))
		a.note("%s.", waitedWords(waited))
	}
	if len(services) > 0 {
		return nil
	}
	if err := a.waitPhase(ctx, c, resp.GetSandbox(), limit); err != nil {
		return err
	}
	a.note("Sandbox %s is Ready after %s.", name, elapsedWords(time.Since(began)))
	return nil
}

// waitPhase waits until a sandbox is ready.
func (a *app) waitPhase(ctx context.Context, c *sandbox.Client, s *openshellv1.Sandbox, limit time.Duration) error {
	began := time.Now()
	name := s.GetMetadata().GetName()
	var seen atomic.Pointer[openshellv1.SandboxStatus]
	seen.Store(s.GetStatus())
	say := func() string {
		word, _ := phaseWords(seen.Load())
		return fmt.Sprintf("Waiting for sandbox %s: %s, %s", name, word, elapsedWords(time.Since(began).Truncate(time.Second)))
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return a.progress(ctx, nil, say, func() error {
		tick := time.NewTicker(phasePoll)
		defer tick.Stop()
		for {
			if over, err := phaseEnds(name, seen.Load()); over || err != nil {
				return err
			}
			select {
			case <-tick.C:
			case <-bounded.Done():
			}
			resp, err := c.GetSandbox(bounded, &openshellv1.GetSandboxRequest{Name: name, WorkspaceScope: a.scope()})
			if errors.Is(err, sandbox.ErrTimeout) {
				word, _ := phaseWords(seen.Load())
				return &lateError{fmt.Sprintf("sandbox %s was not Ready within %v; last seen %s", name, limit.Round(10*time.Millisecond), word)}
			}
			if err != nil {
				return err
			}
			seen.Store(resp.GetSandbox().GetStatus())
		}
	})
}

// phaseEnds reports whether a wait for READY is over, and the error if it is
// over without.
func phaseEnds(name string, s *openshellv1.SandboxStatus) (over bool, err error) {
	switch s.GetPhase() {
	case openshellv1.SandboxPhase_SANDBOX_PHASE_READY:
		return true, nil
	case openshellv1.SandboxPhase_SANDBOX_PHASE_ERROR, openshellv1.SandboxPhase_SANDBOX_PHASE_STOPPING,
		openshellv1.SandboxPhase_SANDBOX_PHASE_STOPPED, openshellv1.SandboxPhase_SANDBOX_PHASE_DELETING:
		word, _ := phaseWords(s)
		return true, fmt.Errorf("sandbox %s will not be Ready: it is %s", name, word)
	}
	return false, nil
}

// lateError is a wait of this command whose time is over.
type lateError struct{ text string }

func (e *lateError) Error() string { return e.text }
