// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
)

func TestGatewayInfo(t *testing.T) {
	w := newWorld(t)
	for ready, want := range map[bool]openshellv1.ServiceStatus{
		true:  openshellv1.ServiceStatus_SERVICE_STATUS_HEALTHY,
		false: openshellv1.ServiceStatus_SERVICE_STATUS_UNHEALTHY,
	} {
		w.ready = ready
		info := must[*openshellv1.GetGatewayInfoResponse](w, &openshellv1.GetGatewayInfoRequest{})
		if info.GetStatus() != want || info.GetGatewayVersion() != "1.2.3" {
			t.Errorf("ready %t: %v", ready, info)
		}
		drivers := info.GetComputeDrivers()
		if len(drivers) != 1 || drivers[0].GetName() != "external" ||
			drivers[0].GetCapabilities().GetDriverName() != "external" || drivers[0].GetCapabilities().GetDriverVersion() != "1.2.3" {
			t.Errorf("drivers: %v", drivers)
		}
	}
}

func TestCurrentUser(t *testing.T) {
	w := newWorld(t)
	user := must[*openshellv1.GetCurrentUserResponse](w, &openshellv1.GetCurrentUserRequest{})
	if user.GetSubject() != "admin" || user.GetIdentityProvider() != "admin-token" || !slices.Equal(user.GetRoles(), []string{"platform_admin"}) {
		t.Errorf("%v", user)
	}
	if s := user.GetScopes(); !slices.IsSorted(s) || !slices.Contains(s, "sandbox:write") || user.GetDisplayName() == "" {
		t.Errorf("%v", user)
	}
	if b, _ := proto.Marshal(user); strings.Contains(string(b), adminToken) {
		t.Error("the token itself is answered")
	}
}

// A sandbox without a name gets one, each its own, and the replay of the
// request the same.
func TestNameIsChosen(t *testing.T) {
	w := newWorld(t)
	req := &createReq{RequestId: "6ba7b810-9dad-41d1-80b4-00c04fd430c8"}
	first := must[*openshellv1.SandboxResponse](w, req).GetSandbox().GetMetadata().GetName()
	again := must[*openshellv1.SandboxResponse](w, req).GetSandbox().GetMetadata().GetName()
	other := must[*openshellv1.SandboxResponse](w, &createReq{}).GetSandbox().GetMetadata().GetName()
	if validName("name", first) != nil || first != again || first == other {
		t.Errorf("%q, replayed as %q; then %q", first, again, other)
	}
	must[*openshellv1.SandboxResponse](w, &getReq{Name: other})
}

// Every published call that is not served is answered with what is missing.
func TestMissing(t *testing.T) {
	w := newWorld(t)
	served := make(map[string]bool)
	for _, m := range openshellv1.OpenShell_ServiceDesc.Methods {
		served[m.MethodName] = true
	}
	invoke := func(method string) error {
		return w.conn.Invoke(admin(t.Context()), method, &openshellv1.HealthRequest{}, &openshellv1.HealthResponse{})
	}
	seen := make(map[string]bool)
	for _, m := range missing {
		for _, method := range strings.Fields(m.methods) {
			if served[method] || seen[method] {
				t.Errorf("%s is served, or listed twice", method)
			}
			seen[method] = true
			wantError(t, method, invoke("/openshell.v1.OpenShell/"+method), codes.Unimplemented, method+": "+m.text)
		}
	}
	const none = "this gateway has no such method; server reflection lists what it has"
	for _, method := range []string{"/openshell.v1.OpenShell/Other", "/openshell.v1.OpenShell/getSandbox", "/other.v1.Service/WatchSandbox"} {
		wantError(t, method, invoke(method), codes.Unimplemented, none)
	}
	// A stream is answered as well, whoever sends first.
	stream, err := w.conn.NewStream(admin(t.Context()), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/openshell.v1.OpenShell/WatchSandbox")
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, "stream", stream.RecvMsg(&openshellv1.HealthResponse{}), codes.Unimplemented,
		"WatchSandbox: this gateway watches services, not sandboxes: poll GetSandbox, or use sandbox.v1.ServiceHealthWatch")
}

// What a sandbox would be unsafe without is refused, other fields of the
// published API are ignored.
func TestRefusedFields(t *testing.T) {
	w := newWorld(t)
	field := func(number protowire.Number) []byte {
		b := protowire.AppendVarint(protowire.AppendTag(nil, 100, protowire.VarintType), 1)
		return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), "x")
	}
	with := func(name string, inRequest, inSpec []byte) proto.Message {
		r := &createReq{Name: name, Spec: &spec{}}
		r.ProtoReflect().SetUnknown(inRequest)
		r.Spec.ProtoReflect().SetUnknown(inSpec)
		return r
	}
	before := w.everything()
	for number, text := range refusedInCreate {
		_, err := w.call(with("a", field(number), nil))
		wantError(t, text, err, codes.Unimplemented, text)
	}
	for number, text := range refusedInSpec {
		_, err := w.call(with("a", nil, field(number)))
		wantError(t, text, err, codes.Unimplemented, text)
	}
	w.unchanged("all of that", before)
	must[*openshellv1.SandboxResponse](w, with("a", field(200), field(9)))
	// The numbers are for fields that this API does not have.
	for number := range refusedInCreate {
		if (&createReq{}).ProtoReflect().Descriptor().Fields().ByNumber(number) != nil {
			t.Errorf("field %d is known", number)
		}
	}
	for number := range refusedInSpec {
		if (&spec{}).ProtoReflect().Descriptor().Fields().ByNumber(number) != nil {
			t.Errorf("field %d of the spec is known", number)
		}
	}
}
