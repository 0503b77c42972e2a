// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

// afterNames is greater than every name, bytewise.
const afterNames = "~"

func workspaceMessage(name string) *datamodelv1.Workspace {
	return &datamodelv1.Workspace{
		Metadata: &datamodelv1.ObjectMeta{Name: name},
		Status:   &datamodelv1.WorkspaceStatus{Phase: datamodelv1.WorkspacePhase_WORKSPACE_PHASE_ACTIVE},
	}
}

// GetWorkspace implements openshell.v1.
func (s *Server) GetWorkspace(ctx context.Context, r *openshellv1.GetWorkspaceRequest) (*openshellv1.GetWorkspaceResponse, error) {
	name := r.GetName()
	if err := validName("name", name); err != nil {
		return nil, err
	}
	if name != DefaultWorkspace {
		list, err := s.cfg.Store.Sandboxes(ctx, store.SandboxQuery{Workspace: name, Limit: 1})
		if err != nil {
			return nil, s.fail(fmt.Sprintf("workspace %q", name), err)
		}
		if len(list) == 0 {
			return nil, status.Errorf(codes.NotFound, "workspace %q holds no sandbox: it is there once a sandbox is created in it", name)
		}
	}
	return &openshellv1.GetWorkspaceResponse{Workspace: workspaceMessage(name)}, nil
}

// ListWorkspaces implements openshell.v1. It costs one indexed read for each
// workspace on the page, however many sandboxes there are.
func (s *Server) ListWorkspaces(ctx context.Context, r *openshellv1.ListWorkspacesRequest) (*openshellv1.ListWorkspacesResponse, error) {
	size, err := pageSize(r.GetPageSize())
	if err != nil {
		return nil, err
	}
	labels, err := selector(r.GetLabelSelector())
	if err != nil {
		return nil, err
	}
	query := queryID("workspaces", r.GetLabelSelector())
	after, err := decodeToken(r.GetPageToken(), query)
	if err != nil {
		return nil, err
	}
	resp := &openshellv1.ListWorkspacesResponse{}
	if len(labels) > 0 {
		return resp, nil
	}
	for last := after.Workspace; ; {
		next, err := s.workspaceAfter(ctx, last)
		if err != nil {
			return nil, s.fail("the list of workspaces", err)
		}
		if next == "" {
			return resp, nil
		}
		if len(resp.Workspaces) == size {
			resp.NextPageToken = encodeToken(query, store.Cursor{Workspace: last})
			return resp, nil
		}
		resp.Workspaces = append(resp.Workspaces, workspaceMessage(next))
		last = next
	}
}

// workspaceAfter returns the first workspace that is there after last, or "".
func (s *Server) workspaceAfter(ctx context.Context, last string) (string, error) {
	list, err := s.cfg.Store.Sandboxes(ctx, store.SandboxQuery{
		After: store.Cursor{Workspace: last, Name: afterNames, Set: true}, Limit: 1,
	})
	if err != nil {
		return "", err
	}
	next := ""
	if len(list) > 0 {
		next = list[0].Workspace
	}
	if last < DefaultWorkspace && (next == "" || next > DefaultWorkspace) {
		next = DefaultWorkspace
	}
	return next, nil
}
