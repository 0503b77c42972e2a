// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxtest

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
)

// ExposeService implements the API: the health of a new service, and of one
// whose configuration changed, is unknown.
func (g *Gateway) ExposeService(_ context.Context, r *openshellv1.ExposeServiceRequest) (*openshellv1.ServiceEndpointResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.notify()
	k, s, err := g.find(r.GetWorkspaceScope(), r.GetSandbox())
	if err != nil {
		return nil, err
	}
	if err := checkPort(r.GetTargetPort()); err != nil {
		return nil, err
	}
	return g.expose(k.workspace, s.GetMetadata().GetId(), r), nil
}

func checkPort(port uint32) error {
	if port < 1 || port > 65535 {
		return status.Errorf(codes.InvalidArgument, "target_port: %d is not within 1..65535", port)
	}
	return nil
}

// expose stores a service of a valid port; the caller holds the lock.
func (g *Gateway) expose(workspace, id string, r *openshellv1.ExposeServiceRequest) *openshellv1.ServiceEndpointResponse {
	k := key{workspace, r.GetSandbox(), r.GetName()}
	old := g.services[k]
	e := &openshellv1.ServiceEndpoint{
		Metadata:       g.meta(workspace, r.GetName(), nil, nil),
		SandboxId:      id,
		Sandbox:        r.GetSandbox(),
		Name:           r.GetName(),
		TargetPort:     r.GetTargetPort(),
		Domain:         r.GetDomain(),
		ReadinessCheck: proto.CloneOf(r.GetReadinessCheck()),
	}
	if e.ReadinessCheck == nil {
		e.ReadinessCheck = proto.CloneOf(old.GetReadinessCheck())
	} else if e.ReadinessCheck.Path == "" {
		e.ReadinessCheck.Path = "/"
	}
	reason := "NotObserved"
	if old != nil {
		e.Metadata.Id, e.Metadata.CreatedTime = old.GetMetadata().GetId(), old.GetMetadata().GetCreatedTime()
		reason = "ConfigurationChanged"
	}
	if old.GetTargetPort() != e.TargetPort || !proto.Equal(old.GetReadinessCheck(), e.ReadinessCheck) {
		g.health[k] = &openshellv1.ServiceHealth{
			State:   openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_UNKNOWN,
			Reason:  reason,
			Message: "The agent has not checked this service yet.",
		}
	}
	g.services[k] = e
	return g.answer(k)
}

// answer is what a get of a stored service returns; the caller holds the lock.
func (g *Gateway) answer(k key) *openshellv1.ServiceEndpointResponse {
	host := k.workspace + "--" + k.sandbox
	if k.service != "" {
		host += "--" + k.service
	}
	return &openshellv1.ServiceEndpointResponse{
		Endpoint: proto.CloneOf(g.services[k]),
		Url:      "http://" + host + ".sandbox.localhost:17680/",
		Health:   proto.CloneOf(g.health[k]),
	}
}

// GetService implements the API.
func (g *Gateway) GetService(_ context.Context, r *openshellv1.GetServiceRequest) (*openshellv1.ServiceEndpointResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	workspace, err := one(r.GetWorkspaceScope())
	if err != nil {
		return nil, err
	}
	k := key{workspace, r.GetSandbox(), r.GetName()}
	if g.services[k] == nil {
		return nil, noService(k)
	}
	return g.answer(k), nil
}

// DeleteService implements the API.
func (g *Gateway) DeleteService(_ context.Context, r *openshellv1.DeleteServiceRequest) (*openshellv1.DeleteServiceResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.notify()
	workspace, err := one(r.GetWorkspaceScope())
	if err != nil {
		return nil, err
	}
	k := key{workspace, r.GetSandbox(), r.GetName()}
	if g.services[k] == nil {
		if r.GetAllowMissing() {
			return &openshellv1.DeleteServiceResponse{Outcome: openshellv1.DeletionOutcome_DELETION_OUTCOME_ALREADY_ABSENT}, nil
		}
		return nil, noService(k)
	}
	delete(g.services, k)
	delete(g.health, k)
	return &openshellv1.DeleteServiceResponse{Outcome: openshellv1.DeletionOutcome_DELETION_OUTCOME_COMPLETED}, nil
}

func noService(k key) error {
	return status.Errorf(codes.NotFound, "sandbox %q has no service %q in workspace %q", k.sandbox, k.service, k.workspace)
}
