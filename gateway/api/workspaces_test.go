// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
)

// workspaces lists all pages.
func (w *world) workspaces(r *openshellv1.ListWorkspacesRequest) string {
	w.t.Helper()
	var names []string
	for {
		resp := must[*openshellv1.ListWorkspacesResponse](w, r)
		for _, space := range resp.GetWorkspaces() {
			names = append(names, space.GetMetadata().GetName())
			if space.GetStatus().GetPhase() != datamodelv1.WorkspacePhase_WORKSPACE_PHASE_ACTIVE {
				w.t.Errorf("%v", space)
			}
		}
		if size := int(r.GetPageSize()); size > 0 && len(resp.GetWorkspaces()) > size {
			w.t.Errorf("%d on a page of %d", len(resp.GetWorkspaces()), size)
		}
		if r.PageToken = resp.GetNextPageToken(); r.PageToken == "" {
			return strings.Join(names, " ")
		}
	}
}

// A workspace is there while a sandbox is in it, and "default" always.
func TestWorkspaces(t *testing.T) {
	w := newWorld(t)
	for i, c := range []struct{ create, want string }{
		{"", "default"},
		{"default/a", "default"},
		{"team/a", "default team"},
		{"team/z9", "default team"},
		{"team-a/x", "default team team-a"},
		{"team0/x", "default team team-a team0"},
		{"a/x", "a default team team-a team0"},
		{"0/x", "0 a default team team-a team0"},
		{"defaul/x", "0 a defaul default team team-a team0"},
		{"default0/x", "0 a defaul default default0 team team-a team0"},
	} {
		if space, name, ok := strings.Cut(c.create, "/"); ok {
			must[*openshellv1.SandboxResponse](w, &createReq{Name: name, WorkspaceScope: workspace(space)})
		}
		for _, size := range []int32{0, 1, 2, 3} {
			if got := w.workspaces(&openshellv1.ListWorkspacesRequest{PageSize: size}); got != c.want {
				t.Errorf("%d, pages of %d: %q, want %q", i, size, got, c.want)
			}
		}
		for name := range strings.FieldsSeq(c.want) {
			got := must[*openshellv1.GetWorkspaceResponse](w, &openshellv1.GetWorkspaceRequest{Name: name})
			if got.GetWorkspace().GetMetadata().GetName() != name {
				t.Errorf("%s: %v", name, got)
			}
		}
	}
	if got := w.workspaces(&openshellv1.ListWorkspacesRequest{LabelSelector: "team=x"}); got != "" {
		t.Errorf("with a label: %q", got)
	}
	must[*openshellv1.DeleteSandboxResponse](w, &deleteReq{Name: "x", WorkspaceScope: workspace("0")})
	if got := w.workspaces(&openshellv1.ListWorkspacesRequest{}); strings.HasPrefix(got, "0") {
		t.Errorf("after its last sandbox: %q", got)
	}
	_, err := w.call(&openshellv1.GetWorkspaceRequest{Name: "0"})
	wantError(t, "no sandbox", err, codes.NotFound, `workspace "0" holds no sandbox: it is there once a sandbox is created in it`)
}

// However many sandboxes there are, a page costs a read for each workspace.
func TestWorkspacesCost(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		for _, space := range []string{"default", "team"} {
			must[*openshellv1.SandboxResponse](w, &createReq{Name: name, WorkspaceScope: workspace(space)})
		}
	}
	before := w.count("sandboxes")
	w.workspaces(&openshellv1.ListWorkspacesRequest{})
	if n := w.count("sandboxes") - before; n != 3 {
		t.Errorf("%d reads", n)
	}
}

func TestWorkspacesBadInput(t *testing.T) {
	w := newWorld(t)
	must[*openshellv1.SandboxResponse](w, &createReq{Name: "a", WorkspaceScope: workspace("team")})
	token := must[*openshellv1.ListWorkspacesResponse](w, &openshellv1.ListWorkspacesRequest{PageSize: 1}).GetNextPageToken()
	for _, c := range []struct {
		req     *openshellv1.ListWorkspacesRequest
		message string
	}{
		{&openshellv1.ListWorkspacesRequest{PageSize: -1}, "page_size: -1 is negative; it must be in 0..1000, 0 meaning 100"},
		{&openshellv1.ListWorkspacesRequest{LabelSelector: "x"}, `label_selector: term "x" is not of the form key=value`},
		{&openshellv1.ListWorkspacesRequest{PageToken: "x"}, "page_token: is not a page token of this gateway; use the next_page_token of the page before, unchanged"},
		{&openshellv1.ListWorkspacesRequest{PageToken: token, LabelSelector: "k=v"}, "page_token: belongs to another list request; use the next_page_token of the page before, unchanged"},
	} {
		_, err := w.call(c.req)
		wantError(t, c.message, err, codes.InvalidArgument, c.message)
	}
}
