// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sandbox-agent/sandbox-agent/gateway/api"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
	"github.com/sandbox-agent/sandbox-agent/internal/backoff"
)

// Records is where stored records are read.
type Records interface {
	Sandboxes(context.Context, store.SandboxQuery) ([]store.Sandbox, error)
	SandboxByID(ctx context.Context, id string) (store.Sandbox, error)
	ServicesOf(ctx context.Context, sandboxID string) ([]store.Service, error)
}

// listPage is how many sandboxes are listed at a time.
const listPage = 1000

// storePatience is how long a call waits for the records to be up to date.
const storePatience = 10 * time.Second

var storeBackoff = backoff.Policy{Min: 100 * time.Millisecond, Max: 5 * time.Second, Factor: 2}

// load keeps the records up to date until ctx ends. What it cannot read it
// reads again.
func (s *Server) load(ctx context.Context) {
	failures := 0
	for {
		if err := s.loadAll(ctx); err != nil && ctx.Err() == nil {
			if failures == 0 {
				s.cfg.Logger.Warn("reading records for watches failed; trying again", "error", err)
			}
			retry := time.NewTimer(storeBackoff.Delay(failures, rand.Float64()))
			failures++
			select {
			case <-retry.C:
				continue
			case <-ctx.Done():
				retry.Stop()
				return
			}
		}
		failures = 0
		select {
		case <-s.stored.wake:
		case <-ctx.Done():
			return
		}
	}
}

// loadAll reads whatever is marked.
func (s *Server) loadAll(ctx context.Context) error {
	if !s.listed {
		if err := s.list(ctx); err != nil {
			return err
		}
		s.listed = true
	}
	ids, ticket := s.stored.take()
	for i, id := range ids {
		r, err := s.read(ctx, id)
		if err != nil {
			s.stored.put(ids[i:]...)
			return err
		}
		s.look(id, func(old sight) sight { return sight{record: r, slot: s.cfg.Slots.Slot(id)} })
	}
	s.settleAt(ticket)
	return nil
}

// list marks every stored sandbox.
func (s *Server) list(ctx context.Context) error {
	q := store.SandboxQuery{Limit: listPage}
	for {
		list, err := s.cfg.Records.Sandboxes(ctx, q)
		if err != nil {
			return err
		}
		for _, sb := range list {
			s.stored.put(sb.ID)
			q.After = store.Cursor{Workspace: sb.Workspace, Name: sb.Name, Set: true}
		}
		if len(list) < q.Limit {
			return nil
		}
	}
}

// read returns the record of a sandbox; nil if there is none.
func (s *Server) read(ctx context.Context, id string) (*record, error) {
	sb, err := s.cfg.Records.SandboxByID(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	services, err := s.cfg.Records.ServicesOf(ctx, id)
	if err != nil {
		return nil, err
	}
	for i := range services { // one copy of the strings that all of them share
		services[i].SandboxID, services[i].Workspace, services[i].Sandbox = sb.ID, sb.Workspace, sb.Name
	}
	return &record{
		id: sb.ID, workspace: sb.Workspace, name: sb.Name, labels: sb.Labels,
		lifecycle: api.LifecycleOf(sb), exitCode: sb.ExitCode, services: services,
	}, nil
}

// settleAt says that all marks up to a ticket are dealt with.
func (s *Server) settleAt(ticket uint64) {
	s.state.Lock()
	s.loading = false
	s.state.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded = ticket
	close(s.settled)
	s.settled = make(chan struct{})
}

// settle returns once the records are as new as whatever was stored before it
// was called.
func (s *Server) settle(ctx context.Context) error {
	ticket := s.stored.puts()
	limit := time.NewTimer(storePatience)
	defer limit.Stop()
	for {
		s.mu.Lock()
		done, next := s.loaded >= ticket, s.settled
		s.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-next:
		case <-limit.C:
			return status.Error(codes.Unavailable, "the gateway cannot read its store at present: try again")
		case <-s.closed:
			return errClosing
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}
