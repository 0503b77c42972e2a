// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxtest

import (
	"context"
	"fmt"
	"maps"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
)

// Health implements the API.
func (g *Gateway) Health(context.Context, *openshellv1.HealthRequest) (*openshellv1.HealthResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return proto.CloneOf(g.own), nil
}

// CreateSandbox implements the API: the sandbox is provisioning; for the
// driver "external" it carries the condition that tells how to boot it. One
// without a name gets one, "sandbox-" and eight digits.
func (g *Gateway) CreateSandbox(_ context.Context, r *openshellv1.CreateSandboxRequest) (*openshellv1.SandboxResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.notify()
	workspace, err := one(r.GetWorkspaceScope())
	if err != nil {
		return nil, err
	}
	name := r.GetName()
	if name == "" {
		name = fmt.Sprintf("sandbox-%08d", g.version+1)
	}
	k := key{workspace, name, ""}
	if g.sandboxes[k] != nil {
		return nil, status.Errorf(codes.AlreadyExists, "sandbox %q exists already", name)
	}
	s := &openshellv1.Sandbox{
		Metadata: g.meta(workspace, name, r.GetLabels(), r.GetAnnotations()),
		Spec:     proto.CloneOf(r.GetSpec()),
		Status:   &openshellv1.SandboxStatus{Phase: openshellv1.SandboxPhase_SANDBOX_PHASE_PROVISIONING},
	}
	if r.GetAnnotations()["sandbox-agent.dev/driver"] == "external" {
		s.Status.Conditions = []*openshellv1.SandboxCondition{handOver(name)}
	}
	for _, e := range r.GetServiceExposures() {
		if err := checkPort(e.GetTargetPort()); err != nil {
			return nil, err
		}
	}
	resp := &openshellv1.SandboxResponse{ServiceUrls: map[string]string{}}
	for _, e := range r.GetServiceExposures() {
		resp.ServiceUrls[e.GetService()] = g.expose(workspace, s.GetMetadata().GetId(), &openshellv1.ExposeServiceRequest{
			Sandbox: name, Name: e.GetService(), TargetPort: e.GetTargetPort(), ReadinessCheck: e.GetReadinessCheck(),
		}).GetUrl()
	}
	g.sandboxes[k] = s
	resp.Sandbox = proto.CloneOf(s)
	return resp, nil
}

func handOver(name string) *openshellv1.SandboxCondition {
	return &openshellv1.SandboxCondition{
		Type:    "Runtime",
		Status:  "Unknown",
		Reason:  "External",
		Message: "The token is in tokens/" + name + ".token. Start the agent with --token-file and that file.",
	}
}

// find returns a stored sandbox; the caller holds the lock.
func (g *Gateway) find(scope *datamodelv1.WorkspaceSelector, name string) (key, *openshellv1.Sandbox, error) {
	workspace, err := one(scope)
	if err != nil {
		return key{}, nil, err
	}
	k := key{workspace, name, ""}
	if g.sandboxes[k] == nil {
		return k, nil, status.Errorf(codes.NotFound, "there is no sandbox %q in workspace %q", name, workspace)
	}
	return k, g.sandboxes[k], nil
}

// GetSandbox implements the API.
func (g *Gateway) GetSandbox(_ context.Context, r *openshellv1.GetSandboxRequest) (*openshellv1.SandboxResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, s, err := g.find(r.GetWorkspaceScope(), r.GetName())
	if err != nil {
		return nil, err
	}
	return &openshellv1.SandboxResponse{Sandbox: proto.CloneOf(s)}, nil
}

// StopSandbox implements the API: the sandbox is stopped at once.
func (g *Gateway) StopSandbox(_ context.Context, r *openshellv1.StopSandboxRequest) (*openshellv1.SandboxResponse, error) {
	return g.phase(r.GetWorkspaceScope(), r.GetName(), openshellv1.SandboxPhase_SANDBOX_PHASE_STOPPED)
}

// StartSandbox implements the API: the sandbox stays in phase STARTING.
func (g *Gateway) StartSandbox(_ context.Context, r *openshellv1.StartSandboxRequest) (*openshellv1.SandboxResponse, error) {
	return g.phase(r.GetWorkspaceScope(), r.GetName(), openshellv1.SandboxPhase_SANDBOX_PHASE_STARTING)
}

func (g *Gateway) phase(scope *datamodelv1.WorkspaceSelector, name string, p openshellv1.SandboxPhase) (*openshellv1.SandboxResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.notify()
	_, s, err := g.find(scope, name)
	if err != nil {
		return nil, err
	}
	if s.Status == nil {
		s.Status = &openshellv1.SandboxStatus{}
	}
	s.Status.Phase = p
	return &openshellv1.SandboxResponse{Sandbox: proto.CloneOf(s)}, nil
}

// DeleteSandbox implements the API: the sandbox and its services are gone at
// once.
func (g *Gateway) DeleteSandbox(_ context.Context, r *openshellv1.DeleteSandboxRequest) (*openshellv1.DeleteSandboxResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.notify()
	k, s, err := g.find(r.GetWorkspaceScope(), r.GetName())
	if status.Code(err) == codes.NotFound && r.GetAllowMissing() {
		return &openshellv1.DeleteSandboxResponse{Outcome: openshellv1.DeletionOutcome_DELETION_OUTCOME_ALREADY_ABSENT}, nil
	}
	if err != nil {
		return nil, err
	}
	delete(g.sandboxes, k)
	maps.DeleteFunc(g.services, func(e key, _ *openshellv1.ServiceEndpoint) bool {
		return e.workspace == k.workspace && e.sandbox == k.sandbox
	})
	return &openshellv1.DeleteSandboxResponse{
		Outcome:   openshellv1.DeletionOutcome_DELETION_OUTCOME_COMPLETED,
		SandboxId: s.GetMetadata().GetId(),
	}, nil
}
