// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxtest

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
)

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }

// ListSandboxes implements the API.
func (g *Gateway) ListSandboxes(_ context.Context, r *openshellv1.ListSandboxesRequest) (*openshellv1.ListSandboxesResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := slices.SortedFunc(maps.Keys(g.sandboxes), compareKeys)
	keys := slices.DeleteFunc(all, func(k key) bool {
		return !inScope(r.GetWorkspaceScope(), k) || !selected(r.GetLabelSelector(), g.sandboxes[k].GetMetadata().GetLabels())
	})
	keys, next, err := g.page(keys, int(r.GetPageSize()), r.GetPageToken())
	if err != nil {
		return nil, err
	}
	resp := &openshellv1.ListSandboxesResponse{NextPageToken: next}
	for _, k := range keys {
		resp.Sandboxes = append(resp.Sandboxes, proto.CloneOf(g.sandboxes[k]))
	}
	return resp, nil
}

// ListServices implements the API.
func (g *Gateway) ListServices(_ context.Context, r *openshellv1.ListServicesRequest) (*openshellv1.ListServicesResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.GetSandbox() != "" && r.GetWorkspaceScope().GetAllWorkspaces() == nil {
		if _, _, err := g.find(r.GetWorkspaceScope(), r.GetSandbox()); err != nil {
			return nil, err
		}
	}
	all := slices.SortedFunc(maps.Keys(g.services), compareKeys)
	keys := slices.DeleteFunc(all, func(k key) bool {
		return !inScope(r.GetWorkspaceScope(), k) || (r.GetSandbox() != "" && r.GetSandbox() != k.sandbox)
	})
	keys, next, err := g.page(keys, int(r.GetPageSize()), r.GetPageToken())
	if err != nil {
		return nil, err
	}
	resp := &openshellv1.ListServicesResponse{NextPageToken: next}
	for _, k := range keys {
		resp.Services = append(resp.Services, g.answer(k))
	}
	return resp, nil
}

func inScope(s *datamodelv1.WorkspaceSelector, k key) bool {
	return s.GetAllWorkspaces() != nil || workspaceOr(s.GetWorkspace()) == k.workspace
}

// selected reports whether every "key=value" term of the selector holds.
func selected(selector string, labels map[string]string) bool {
	if selector == "" {
		return true
	}
	for term := range strings.SplitSeq(selector, ",") {
		k, v, _ := strings.Cut(term, "=")
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// page cuts one page out of all keys; a token is the number of entries before
// the page.
func (g *Gateway) page(keys []key, size int, token string) ([]key, string, error) {
	begin := 0
	if token != "" {
		n, err := strconv.Atoi(token)
		if err != nil || n < 0 || n > len(keys) {
			return nil, "", status.Error(codes.InvalidArgument, "page_token: is not one of this gateway's")
		}
		begin = n
	}
	if size <= 0 || size > g.o.PageSize {
		size = g.o.PageSize
	}
	keys = keys[begin:]
	if len(keys) <= size {
		return keys, "", nil
	}
	return keys[:size], strconv.Itoa(begin + size), nil
}
