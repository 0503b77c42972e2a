// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
)

// missing says what is not here of the published service, and what to do
// instead where something can be done. Every published method that is not
// served stands in one line.
var missing = []struct{ methods, text string }{
	{"WatchSandbox", "this gateway watches services, not sandboxes: poll GetSandbox, or use sandbox.v1.ServiceHealthWatch"},
	{"ExecSandbox ExecSandboxInteractive", "this gateway runs nothing in a sandbox but the command that it was created with"},
	{"CreateSshSession RevokeSshSession", "this gateway opens no shell in a sandbox"},
	{"ForwardTcp", "this gateway connects to exposed services only: use the URL of the service, or sandbox.v1.ServiceForward"},
	{"GetSandboxLogs", "this gateway keeps no logs of sandboxes"},
	{"BeginRootfsTarStaging", "this gateway takes no root file systems: boot the sandbox yourself, with the driver external"},
	{"CreateSandboxTemplate GetSandboxTemplate ListSandboxTemplates DeleteSandboxTemplate", "this gateway has no templates of sandboxes: send the whole spec to CreateSandbox"},
	{
		"ListSandboxProviders AttachSandboxProvider DetachSandboxProvider GetSandboxProviderStatus " +
			"CreateProvider GetProvider GetProviderCredentials ListProviders UpdateProvider DeleteProvider " +
			"ListProviderProfiles GetProviderProfile ImportProviderProfiles UpdateProviderProfiles LintProviderProfiles DeleteProviderProfile " +
			"GetProviderRefreshStatus ConfigureProviderRefresh RotateProviderCredential DeleteProviderRefresh",
		"this gateway has no providers: it hands no credentials to sandboxes",
	},
	{"GetSandboxConfig GetSandboxPolicyStatus ListSandboxPolicies", "this gateway has no policies: whoever boots a sandbox confines it"},
	{
		"SubmitPolicyAnalysis GetDraftPolicy ApproveDraftChunk RejectDraftChunk ApproveAllDraftChunks EditDraftChunk UndoDraftChunk ClearDraftChunks GetDraftHistory",
		"this gateway has no policies: whoever boots a sandbox confines it",
	},
	{"GetGatewayConfig UpdateConfig", "this gateway is configured by its operator, not over its API"},
	{"CreateWorkspace DeleteWorkspace", "workspaces are neither created nor deleted: one is there while a sandbox is in it"},
	{"AddWorkspaceMember RemoveWorkspaceMember ListWorkspaceMembers", "workspaces have no members: whoever holds the admin token may do everything"},
	{
		"ConnectSupervisor RelayStream IssueSandboxToken RefreshSandboxToken PushSandboxLogs ReportMainProcessExit FinalizeMainProcessExit " +
			"ReportPolicyStatus ReportEndpointStatus ReportProviderReadiness ReportSandboxConfiguration GetSandboxProviderEnvironment ExchangeProviderSubjectToken",
		"this call is for the supervisor in a sandbox; the one of this gateway is sandbox-agent, which connects to another address",
	},
	{
		"PeerRelay PeerReportProviderReadiness PeerReportEndpointStatus PeerGetSandboxProviderStatus PeerNotifyConfigUpdate",
		"this call is for other replicas, which this gateway does not call",
	},
}

// Missing answers the calls that no registered service has: Unimplemented, and
// what is missing. It is the server's handler of unknown methods.
func Missing(_ any, stream grpc.ServerStream) error {
	full, _ := grpc.MethodFromServerStream(stream)
	service, method, _ := strings.Cut(strings.TrimPrefix(full, "/"), "/")
	if service == openshellv1.OpenShell_ServiceDesc.ServiceName {
		for _, m := range missing {
			if slices.Contains(strings.Fields(m.methods), method) {
				return status.Error(codes.Unimplemented, method+": "+m.text)
			}
		}
	}
	return status.Error(codes.Unimplemented, "this gateway has no such method; server reflection lists what it has")
}

// Published fields that are not here and yet must not be ignored: a sandbox
// without them would not be what was asked for.
var (
	refusedInCreate = map[protowire.Number]string{
		6: "workload_template: this gateway has no templates of sandboxes: send the whole spec",
	}
	refusedInSpec = map[protowire.Number]string{
		7: "spec.policy: this gateway has no policies and would not enforce one: whoever boots a sandbox confines it",
		8: "spec.providers: this gateway has no providers: it hands no credentials to sandboxes",
	}
)

// understood returns Unimplemented if a request asks for something that this
// gateway must not leave out in silence.
func understood(r *openshellv1.CreateSandboxRequest) error {
	if err := refuse(r.ProtoReflect().GetUnknown(), refusedInCreate); err != nil {
		return err
	}
	return refuse(r.GetSpec().ProtoReflect().GetUnknown(), refusedInSpec)
}

func refuse(unknown protoreflect.RawFields, refused map[protowire.Number]string) error {
	seen := make(map[protowire.Number]bool)
	for len(unknown) > 0 {
		number, _, n := protowire.ConsumeField(unknown)
		if n < 0 {
			break // it was parsed before
		}
		seen[number], unknown = true, unknown[n:]
	}
	for _, number := range slices.Sorted(maps.Keys(refused)) {
		if seen[number] {
			return status.Error(codes.Unimplemented, refused[number])
		}
	}
	return nil
}
