// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/api"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

// ListServiceTransitions implements sandbox.v1.
func (s *Server) ListServiceTransitions(ctx context.Context, r *sandboxv1.ListServiceTransitionsRequest) (*sandboxv1.ListServiceTransitionsResponse, error) {
	g, err := goalOf(&sandboxv1.WaitServiceRequest{WorkspaceScope: r.GetWorkspaceScope(), Sandbox: r.GetSandbox(), Name: r.GetName()})
	if err != nil {
		return nil, err
	}
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	ids, _ := s.selected(filter{workspace: g.workspace, sandbox: g.sandbox})
	s.lookAgain(ids) // what nobody has noticed yet is noticed now
	s.state.RLock()
	defer s.state.RUnlock()
	now := time.Now()
	for _, id := range ids {
		seen := s.sights[id]
		if seen.record == nil {
			continue
		}
		for _, svc := range seen.record.services {
			if svc.Name == g.service {
				return s.transitions(svc, seen, now), nil
			}
		}
	}
	return nil, status.Error(codes.NotFound, api.ServiceSubject(g.workspace, g.sandbox, g.service)+" does not exist")
}

// transitions renders the history of a service.
func (s *Server) transitions(svc store.Service, seen sight, now time.Time) *sandboxv1.ListServiceTransitionsResponse {
	kept := s.history.read(svc.ID)
	// By the distance to now, so that a step of the wall clock does not show.
	wall := func(d time.Duration) *timestamppb.Timestamp {
		return timestamppb.New(now.Round(0).Add(d - now.Sub(s.history.began)))
	}
	phase := health.PhaseOf(seen.record.lifecycle, seen.slot, s.cfg.Started, now)
	answer := health.Evaluate(seen.record.endpoint(&svc), phase, seen.slot, now)
	resp := &sandboxv1.ListServiceTransitionsResponse{
		RecordedSince: wall(kept.since), Dropped: kept.dropped, ReadTime: timestamppb.New(now),
		Service: s.cfg.URLs.Service(svc, answer, now),
	}
	for _, t := range kept.list {
		m := &sandboxv1.ServiceTransition{
			Time: wall(t.at), FromState: t.from.wire(), FromReason: t.from.word(), ToState: t.to.wire(), ToReason: t.to.word(),
			Cause: t.cause, SandboxPhase: openshellv1.SandboxPhase(t.phase),
		}
		if t.code != 0 {
			m.HttpStatusCode = proto.Uint32(uint32(t.code))
		}
		resp.Transitions = append(resp.Transitions, m)
	}
	return resp
}

// wire is the state as clients see it.
func (v verdict) wire() openshellv1.ServiceHealthState {
	switch {
	case !v.given:
		return openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_UNSPECIFIED
	case v.state == probe.Healthy:
		return openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_HEALTHY
	case v.state == probe.Unhealthy:
		return openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_UNHEALTHY
	}
	return openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_UNKNOWN
}
