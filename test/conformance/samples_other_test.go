// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
)

const requestID = "123e4567-e89b-42d3-a456-426614174000"

func workspace(name string) *datamodelv1.WorkspaceSelector {
	return &datamodelv1.WorkspaceSelector{Selection: &datamodelv1.WorkspaceSelector_Workspace{Workspace: name}}
}

func everywhere() *datamodelv1.WorkspaceSelector {
	return &datamodelv1.WorkspaceSelector{Selection: &datamodelv1.WorkspaceSelector_AllWorkspaces{AllWorkspaces: &datamodelv1.AllWorkspaces{}}}
}

// others are the messages that hold no answer about a service.
func others() []sample {
	newerSandbox := &openshellv1.SandboxResponse{Sandbox: storedSandbox(openshellv1.SandboxPhase(42), nil)}
	newer(newerSandbox.Sandbox.Status, protowire.AppendVarint(protowire.AppendTag(nil, 77, protowire.VarintType), 5))
	return []sample{
		{name: "request_expose", about: "a service with a check", message: &openshellv1.ExposeServiceRequest{
			Sandbox: "web", Name: "docs", TargetPort: 65535, Domain: true, WorkspaceScope: workspace("team-a"), RequestId: requestID,
			ReadinessCheck: &openshellv1.HttpReadinessCheck{Path: "/readyz"},
		}},
		{name: "request_expose_least", about: "no name, no check", message: &openshellv1.ExposeServiceRequest{Sandbox: "web", TargetPort: 1}},
		{name: "request_expose_empty_check", about: "an empty check is there on the wire", message: &openshellv1.ExposeServiceRequest{
			Sandbox: "web", TargetPort: 8080, ReadinessCheck: &openshellv1.HttpReadinessCheck{},
		}},
		{name: "request_get", about: "one service", message: &openshellv1.GetServiceRequest{Sandbox: "web", Name: "docs"}},
		{name: "request_list_all", about: "every workspace", message: &openshellv1.ListServicesRequest{PageSize: 250, PageToken: "bmV4dA", WorkspaceScope: everywhere()}},
		{name: "request_delete", about: "missing or not", message: &openshellv1.DeleteServiceRequest{
			Sandbox: "web", Name: "docs", WorkspaceScope: workspace("team-a"), AllowMissing: true, RequestId: requestID,
		}},
		{name: "request_create_sandbox", about: "a sandbox with exposures", message: &openshellv1.CreateSandboxRequest{
			Name: "web", Labels: map[string]string{"team": "search"}, Annotations: map[string]string{"sandbox-agent.dev/driver": "local"},
			Spec: &openshellv1.SandboxSpec{
				LogLevel: "info", Environment: map[string]string{"PORT": "8080"}, Command: []string{"serve", "--port", "8080"}, Tty: true,
				Template: &openshellv1.SandboxTemplate{Image: "example/web:1"},
			},
			WorkspaceScope: workspace("team-a"), RequestId: requestID,
			ServiceExposures: []*openshellv1.SandboxServiceExposure{
				{TargetPort: 8080, ReadinessCheck: &openshellv1.HttpReadinessCheck{Path: "/readyz"}}, {Service: "docs", TargetPort: 8081},
			},
		}},
		{name: "sandbox_ready", about: "a running sandbox, with the URL of a service", message: &openshellv1.SandboxResponse{
			Sandbox: storedSandbox(openshellv1.SandboxPhase_SANDBOX_PHASE_READY, nil), ServiceUrls: map[string]string{"": "http://default--web.sandbox.localhost:17680/"},
		}},
		{name: "sandbox_exited", about: "the main process ended with 0, which is there on the wire", message: &openshellv1.SandboxResponse{
			Sandbox: storedSandbox(openshellv1.SandboxPhase_SANDBOX_PHASE_ERROR, proto.Int32(0)),
		}},
		{name: "sandbox_killed", about: "an exit code below zero", message: &openshellv1.SandboxResponse{
			Sandbox: storedSandbox(openshellv1.SandboxPhase_SANDBOX_PHASE_ERROR, proto.Int32(-9)),
		}},
		{name: "sandbox_newer", about: "a phase and a field of a newer API", newer: true, message: newerSandbox},
		{name: "deleted", about: "an outcome", message: &openshellv1.DeleteServiceResponse{Outcome: openshellv1.DeletionOutcome_DELETION_OUTCOME_ALREADY_ABSENT}},
		{name: "gateway_health", about: "the gateway's own", message: &openshellv1.HealthResponse{
			Status: openshellv1.ServiceStatus_SERVICE_STATUS_DEGRADED, Version: "0.1.0",
		}},
		{name: "watch_first", about: "the first message of a watch", message: &sandboxv1.WatchServicesResponse{
			Sequence: 1, Complete: true, Services: []*sandboxv1.WatchedService{
				{Number: 1, Service: answer("docs", "/readyz", checked(healthy, "OK", 200)), SandboxPhase: openshellv1.SandboxPhase_SANDBOX_PHASE_READY, AgeMs: proto.Uint32(0)},
				{Number: 2, Service: answer("new", "", &openshellv1.ServiceHealth{State: unknown, Reason: "NotObserved"}), SandboxPhase: openshellv1.SandboxPhase_SANDBOX_PHASE_READY},
			},
		}},
		{name: "watch_heartbeat", about: "ages, and services to forget", message: &sandboxv1.WatchServicesResponse{
			Sequence: 1 << 40, Complete: true, Removed: []uint32{2, 300}, Ages: []*sandboxv1.ServiceAge{{Number: 1, AgeMs: 4999}},
		}},
		{name: "wait_request", about: "a wait for either of two states", message: &sandboxv1.WaitServiceRequest{
			Sandbox: "web", Name: "docs", WorkspaceScope: workspace("team-a"), Timeout: durationpb.New(1500 * time.Millisecond),
			States: []openshellv1.ServiceHealthState{healthy, unhealthy},
		}},
		{name: "wait_failure", about: "why a wait has ended", message: &sandboxv1.WaitFailure{
			Cause: sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_MAIN_PROCESS_EXITED, Workspace: "default", Sandbox: "web", Name: "docs",
			States: []openshellv1.ServiceHealthState{healthy}, Elapsed: durationpb.New(61 * time.Second), LastHealth: checked(unhealthy, "Refused", 0),
			SandboxPhase: openshellv1.SandboxPhase_SANDBOX_PHASE_ERROR, ExitCode: proto.Int32(-1),
		}},
		{name: "transitions", about: "a history", message: &sandboxv1.ListServiceTransitionsResponse{
			RecordedSince: timestamppb.New(instant().Add(-time.Hour)), Dropped: 3, ReadTime: timestamppb.New(instant()),
			Transitions: []*sandboxv1.ServiceTransition{{
				Time: timestamppb.New(instant()), FromState: unknown, FromReason: "NotObserved", ToState: healthy, ToReason: "OK",
				Cause: sandboxv1.TransitionCause_TRANSITION_CAUSE_REPORT, HttpStatusCode: proto.Uint32(200), SandboxPhase: openshellv1.SandboxPhase_SANDBOX_PHASE_READY,
			}},
		}},
	}
}

func storedSandbox(phase openshellv1.SandboxPhase, exit *int32) *openshellv1.Sandbox {
	return &openshellv1.Sandbox{
		Metadata: &datamodelv1.ObjectMeta{
			Id: "6fa459ea-ee8a-4ca4-894e-db77e160355e", Name: "web", ResourceVersion: 7, Workspace: "default",
			Annotations: map[string]string{"sandbox-agent.dev/driver": "local"}, CreatedTime: timestamppb.New(instant()),
		},
		Spec: &openshellv1.SandboxSpec{Command: []string{"serve"}},
		Status: &openshellv1.SandboxStatus{
			Phase: phase, MainProcessInstanceId: requestID, ExitCode: exit,
			Conditions: []*openshellv1.SandboxCondition{{Type: "Runtime", Status: "True", Reason: "Running", TransitionTime: timestamppb.New(instant())}},
		},
	}
}
