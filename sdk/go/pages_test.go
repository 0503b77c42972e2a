// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
	"github.com/sandbox-agent/sandbox-agent/sdk/go/sandboxtest"
)

func filled(n int) *sandboxtest.Gateway {
	g := sandboxtest.New(sandboxtest.Options{PageSize: 3})
	for i := range n {
		name := fmt.Sprintf("s%02d", i)
		g.PutSandbox(&openshellv1.Sandbox{Metadata: &datamodelv1.ObjectMeta{Name: name}})
		g.PutService(&openshellv1.ServiceEndpoint{Sandbox: name, TargetPort: 80}, nil)
	}
	return g
}

func TestListsReadEveryPage(t *testing.T) {
	for _, n := range []int{0, 1, 3, 4, 10} {
		g := filled(n)
		c := sandboxtest.Start(t, g)
		i := 0
		for s, err := range c.Sandboxes(t.Context(), nil) {
			if want := fmt.Sprintf("s%02d", i); err != nil || s.GetMetadata().GetName() != want {
				t.Fatalf("%d of %d: %v, %v; want %s", i, n, s, err, want)
			}
			i++
		}
		req := &openshellv1.ListServicesRequest{WorkspaceScope: sandbox.AllWorkspaces()}
		before := proto.CloneOf(req)
		j := 0
		for s, err := range c.Services(t.Context(), req) {
			if want := fmt.Sprintf("s%02d", j); err != nil || s.GetEndpoint().GetSandbox() != want {
				t.Fatalf("%d of %d: %v, %v; want %s", j, n, s, err, want)
			}
			j++
		}
		if i != n || j != n {
			t.Errorf("%d sandboxes and %d services, want %d", i, j, n)
		}
		if !proto.Equal(req, before) {
			t.Errorf("the request was changed: %v", req)
		}
	}
}

// A loop that stops early asks for no page that it does not need.
func TestListStopsWithItsLoop(t *testing.T) {
	g := filled(10)
	c := sandboxtest.Start(t, g)
	n := 0
	for range c.Sandboxes(t.Context(), &openshellv1.ListSandboxesRequest{PageSize: 2}) {
		if n++; n == 3 {
			break
		}
	}
	if got := len(g.Requests()); got != 2 {
		t.Errorf("%d pages were asked for, want 2", got)
	}
}

func TestListEndsWithTheFirstError(t *testing.T) {
	g := filled(4)
	c := sandboxtest.Start(t, g)
	n, last := 0, error(nil)
	for _, err := range c.Sandboxes(t.Context(), nil) {
		n, last = n+1, err
		g.Fail("ListSandboxes", status.Error(codes.Internal, "store is gone"))
	}
	if n != 4 || !errors.Is(last, sandbox.ErrInternal) {
		t.Errorf("%d pairs, the last with %v; want 3 sandboxes and ErrInternal", n, last)
	}
}
