// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
)

const (
	noToken    = `no token: send the gateway's admin token as "authorization: Bearer <token>"`
	wrongToken = `the token is not the admin token of this gateway`
)

func TestAuth(t *testing.T) {
	w := newWorld(t)
	w.create("web")
	before := w.everything()
	for name, c := range map[string]struct {
		header  []string
		message string // "": let through
	}{
		"no token":            {nil, noToken},
		"empty":               {[]string{""}, wrongToken},
		"no scheme":           {[]string{adminToken}, wrongToken},
		"wrong scheme":        {[]string{"Basic " + adminToken}, wrongToken},
		"no value":            {[]string{"Bearer"}, wrongToken},
		"wrong token":         {[]string{"Bearer " + adminToken + "x"}, wrongToken},
		"part of the token":   {[]string{"Bearer " + adminToken[1:]}, wrongToken},
		"two spaces":          {[]string{"Bearer  " + adminToken}, wrongToken},
		"the second is right": {[]string{"Bearer x", "Bearer " + adminToken}, wrongToken},
		"right":               {[]string{"Bearer " + adminToken}, ""},
		"scheme in any case":  {[]string{"bEARER " + adminToken}, ""},
	} {
		ctx := t.Context()
		for _, v := range c.header {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", v)
		}
		for method, call := range w.everyMethod() {
			err := call(ctx)
			if c.message != "" {
				wantError(t, name+" "+method, err, codes.Unauthenticated, c.message)
			} else if code := status.Code(err); code != codes.InvalidArgument && code != codes.OK && code != codes.Unimplemented {
				t.Errorf("%s %s: %v", name, method, err)
			}
		}
		if _, err := w.Health(ctx, &openshellv1.HealthRequest{}); err != nil {
			t.Errorf("%s: Health: %v", name, err)
		}
	}
	w.unchanged("all of that", before)
}

// everyMethod calls each method with a request that changes nothing.
func (w *world) everyMethod() map[string]func(context.Context) error {
	all := make(map[string]func(context.Context) error)
	for _, m := range openshellv1.OpenShell_ServiceDesc.Methods {
		if m.MethodName == "Health" {
			continue
		}
		var request proto.Message = &openshellv1.HealthRequest{} // empty
		if m.MethodName == "CreateSandbox" {
			request = &openshellv1.CreateSandboxRequest{Name: "-"}
		}
		all[m.MethodName] = func(ctx context.Context) error {
			return w.conn.Invoke(ctx, "/openshell.v1.OpenShell/"+m.MethodName, request, &openshellv1.HealthRequest{})
		}
	}
	all["WatchSandbox, which is missing"] = func(ctx context.Context) error {
		return w.conn.Invoke(ctx, "/openshell.v1.OpenShell/WatchSandbox", &openshellv1.HealthRequest{}, &openshellv1.HealthRequest{})
	}
	all["reflection"] = func(ctx context.Context) error {
		stream, err := grpc_reflection_v1.NewServerReflectionClient(w.conn).ServerReflectionInfo(ctx)
		if err != nil {
			return err
		}
		defer stream.CloseSend()
		// A stream that was refused already takes no message; Recv says why.
		_ = stream.Send(&grpc_reflection_v1.ServerReflectionRequest{
			MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{},
		})
		_, err = stream.Recv()
		return err
	}
	return all
}

// Whether somebody is there is told without a token.
func TestHealthIsOpen(t *testing.T) {
	a := NewAuth(func(string) bool { return false })
	for method, isOpen := range map[string]bool{
		"/openshell.v1.OpenShell/Health":                                 true,
		grpc_health_v1.Health_Check_FullMethodName:                       true,
		grpc_health_v1.Health_List_FullMethodName:                        true,
		grpc_health_v1.Health_Watch_FullMethodName:                       true,
		"/openshell.v1.OpenShell/GetSandbox":                             false,
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      false,
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": false,
		"/openshell.v1.OpenShell/Health/":                                false,
		"":                                                               false,
	} {
		err := a.check(t.Context(), method)
		if isOpen != (err == nil) || err != nil && status.Code(err) != codes.Unauthenticated {
			t.Errorf("%q: %v", method, err)
		}
	}
}
