// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/lifecycle"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

// DriverAnnotation chooses the driver of a new sandbox.
const DriverAnnotation = "sandbox-agent.dev/driver"

// CreateSandbox implements openshell.v1.
func (s *Server) CreateSandbox(ctx context.Context, r *openshellv1.CreateSandboxRequest) (*openshellv1.SandboxResponse, error) {
	if err := understood(r); err != nil {
		return nil, err
	}
	sb, services, err := s.newSandbox(r)
	if err != nil {
		return nil, err
	}
	req, err := request("CreateSandbox", r)
	if err != nil {
		return nil, err
	}
	encode := func(sb store.Sandbox, services []store.Service) ([]byte, error) {
		resp := &openshellv1.SandboxResponse{Sandbox: s.sandbox(sb, time.Now()), ServiceUrls: make(map[string]string)}
		for _, svc := range services {
			resp.ServiceUrls[svc.Name] = s.cfg.URLs.URL(sb.Workspace, sb.Name, svc.Name)
		}
		return proto.Marshal(resp)
	}
	response, _, err := s.cfg.Lifecycle.Create(ctx, req, sb, services, encode)
	if err != nil {
		return nil, s.fail(sandboxSubject(sb.Workspace, sb.Name), err)
	}
	return replayed(response, &openshellv1.SandboxResponse{})
}

// newSandbox checks a create request and turns it into records.
func (s *Server) newSandbox(r *openshellv1.CreateSandboxRequest) (sb store.Sandbox, services []store.Service, err error) {
	workspace, err := workspaceOf(r.GetWorkspaceScope())
	name := r.GetName()
	if name == "" {
		name = "sandbox-" + uuid.NewString()[:8]
	}
	if err == nil {
		err = validName("name", name)
	}
	if err == nil {
		err = validPairs("labels", r.GetLabels())
	}
	if err == nil {
		err = validPairs("annotations", r.GetAnnotations())
	}
	if err == nil {
		err = validSpec(r.GetSpec())
	}
	if err == nil {
		services, err = exposures(r.GetServiceExposures())
	}
	if err != nil {
		return store.Sandbox{}, nil, err
	}
	driver := r.GetAnnotations()[DriverAnnotation]
	if driver == "" {
		driver = s.cfg.DefaultDriver
	}
	spec := r.GetSpec()
	return store.Sandbox{
		ID: uuid.NewString(), Workspace: workspace, Name: name, Driver: driver,
		Labels: r.GetLabels(), Annotations: r.GetAnnotations(),
		LogLevel: spec.GetLogLevel(), Image: spec.GetTemplate().GetImage(), Environment: spec.GetEnvironment(),
		Command: spec.GetCommand(), TTY: spec.GetTty(),
	}, services, nil
}

func exposures(list []*openshellv1.SandboxServiceExposure) ([]store.Service, error) {
	if len(list) > store.MaxServices {
		return nil, invalid("service_exposures", "has %d entries; a sandbox has at most %d services", len(list), store.MaxServices)
	}
	seen := make(map[string]bool, len(list))
	services := make([]store.Service, 0, len(list))
	for i, e := range list {
		field := fmt.Sprintf("service_exposures[%d]", i)
		if e.GetService() != "" {
			if err := validName(field+".service", e.GetService()); err != nil {
				return nil, err
			}
		}
		if seen[e.GetService()] {
			return nil, invalid(field+".service", "%q appears twice", e.GetService())
		}
		seen[e.GetService()] = true
		port, err := validPort(field+".target_port", e.GetTargetPort())
		if err != nil {
			return nil, err
		}
		has, path, err := checkOf(field+".readiness_check", e.GetReadinessCheck())
		if err != nil {
			return nil, err
		}
		services = append(services, store.Service{ID: uuid.NewString(), Name: e.GetService(), Port: port, HasCheck: has, Path: path})
	}
	return services, nil
}

// named returns the sandbox that a request names.
func (s *Server) named(ctx context.Context, workspace, name string) (store.Sandbox, error) {
	sb, err := s.cfg.Store.Sandbox(ctx, workspace, name)
	return sb, s.fail(sandboxSubject(workspace, name), err)
}

// target returns the sandbox that a mutation names. If there is none, the
// request may have been answered while there was: again says so.
func (s *Server) target(ctx context.Context, req store.Request, workspace, name string) (sb store.Sandbox, response []byte, again bool, err error) {
	sb, err = s.cfg.Store.Sandbox(ctx, workspace, name)
	if errors.Is(err, store.ErrNotFound) {
		response, again, rerr := s.cfg.Lifecycle.Replay(ctx, req)
		if again || rerr != nil {
			return sb, response, again, s.fail(sandboxSubject(workspace, name), rerr)
		}
	}
	return sb, nil, false, s.fail(sandboxSubject(workspace, name), err)
}

// GetSandbox implements openshell.v1.
func (s *Server) GetSandbox(ctx context.Context, r *openshellv1.GetSandboxRequest) (*openshellv1.SandboxResponse, error) {
	workspace, err := workspaceOf(r.GetWorkspaceScope())
	if err == nil {
		err = validName("name", r.GetName())
	}
	if err != nil {
		return nil, err
	}
	sb, err := s.named(ctx, workspace, r.GetName())
	if err != nil {
		return nil, err
	}
	return &openshellv1.SandboxResponse{Sandbox: s.sandbox(sb, time.Now())}, nil
}

// ListSandboxes implements openshell.v1.
func (s *Server) ListSandboxes(ctx context.Context, r *openshellv1.ListSandboxesRequest) (*openshellv1.ListSandboxesResponse, error) {
	workspace, err := workspacesOf(r.GetWorkspaceScope())
	if err != nil {
		return nil, err
	}
	size, err := pageSize(r.GetPageSize())
	if err != nil {
		return nil, err
	}
	labels, err := selector(r.GetLabelSelector())
	if err != nil {
		return nil, err
	}
	query := []string{"sandboxes", workspace}
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		query = append(query, k, labels[k])
	}
	after, err := decodeToken(r.GetPageToken(), queryID(query...))
	if err != nil {
		return nil, err
	}
	list, err := s.cfg.Store.Sandboxes(ctx, store.SandboxQuery{Workspace: workspace, Labels: labels, After: after, Limit: size + 1})
	if err != nil {
		return nil, s.fail("the list of sandboxes", err)
	}
	resp := &openshellv1.ListSandboxesResponse{}
	if len(list) > size {
		list = list[:size]
		last := list[size-1]
		resp.NextPageToken = encodeToken(queryID(query...), store.Cursor{Workspace: last.Workspace, Name: last.Name})
	}
	now := time.Now()
	for _, sb := range list {
		resp.Sandboxes = append(resp.Sandboxes, s.sandbox(sb, now))
	}
	return resp, nil
}

// operation is a lifecycle operation on a stored sandbox.
type operation func(context.Context, store.Request, string, lifecycle.Encode) ([]byte, bool, error)

// StopSandbox implements openshell.v1.
func (s *Server) StopSandbox(ctx context.Context, r *openshellv1.StopSandboxRequest) (*openshellv1.SandboxResponse, error) {
	workspace, err := workspaceOf(r.GetWorkspaceScope())
	if err != nil {
		return nil, err
	}
	return s.operate(ctx, "StopSandbox", workspace, r.GetName(), r, s.cfg.Lifecycle.Stop)
}

// StartSandbox implements openshell.v1.
func (s *Server) StartSandbox(ctx context.Context, r *openshellv1.StartSandboxRequest) (*openshellv1.SandboxResponse, error) {
	workspace, err := workspaceOf(r.GetWorkspaceScope())
	if err != nil {
		return nil, err
	}
	return s.operate(ctx, "StartSandbox", workspace, r.GetName(), r, s.cfg.Lifecycle.Start)
}

func (s *Server) operate(ctx context.Context, method, workspace, name string, m mutation, op operation) (*openshellv1.SandboxResponse, error) {
	if err := validName("name", name); err != nil {
		return nil, err
	}
	req, err := request(method, m)
	if err != nil {
		return nil, err
	}
	sb, response, again, err := s.target(ctx, req, workspace, name)
	if err != nil {
		return nil, err
	}
	if !again {
		response, _, err = op(ctx, req, sb.ID, func(sb store.Sandbox) ([]byte, error) {
			return proto.Marshal(&openshellv1.SandboxResponse{Sandbox: s.sandbox(sb, time.Now())})
		})
	}
	if err != nil {
		return nil, s.fail(sandboxSubject(workspace, name), err)
	}
	return replayed(response, &openshellv1.SandboxResponse{})
}

// DeleteSandbox implements openshell.v1.
func (s *Server) DeleteSandbox(ctx context.Context, r *openshellv1.DeleteSandboxRequest) (*openshellv1.DeleteSandboxResponse, error) {
	workspace, err := workspaceOf(r.GetWorkspaceScope())
	if err == nil {
		err = validName("name", r.GetName())
	}
	if err != nil {
		return nil, err
	}
	req, err := request("DeleteSandbox", r)
	if err != nil {
		return nil, err
	}
	var response []byte
	sb, err := s.cfg.Store.Sandbox(ctx, workspace, r.GetName())
	if err == nil {
		response, _, err = s.cfg.Lifecycle.Delete(ctx, req, sb.ID, func(sb store.Sandbox) ([]byte, error) {
			return proto.Marshal(&openshellv1.DeleteSandboxResponse{
				Outcome: openshellv1.DeletionOutcome_DELETION_OUTCOME_COMPLETED, SandboxId: sb.ID,
			})
		})
	}
	if errors.Is(err, store.ErrNotFound) {
		response, err = s.absentSandbox(ctx, req, workspace, r)
	}
	if err != nil {
		return nil, s.fail(sandboxSubject(workspace, r.GetName()), err)
	}
	return replayed(response, &openshellv1.DeleteSandboxResponse{})
}

// absentSandbox answers a deletion of what does not exist: perhaps this very
// request has deleted it, perhaps the caller does not mind.
func (s *Server) absentSandbox(ctx context.Context, req store.Request, workspace string, r *openshellv1.DeleteSandboxRequest) ([]byte, error) {
	response, _, err := s.cfg.Store.Mutate(ctx, req, func(tx store.Tx) ([]byte, error) {
		_, err := tx.Sandbox(workspace, r.GetName())
		switch {
		case err == nil:
			return nil, store.ErrConflict // it was created meanwhile
		case !errors.Is(err, store.ErrNotFound), !r.GetAllowMissing():
			return nil, err
		}
		return proto.Marshal(&openshellv1.DeleteSandboxResponse{Outcome: openshellv1.DeletionOutcome_DELETION_OUTCOME_ALREADY_ABSENT})
	})
	return response, err
}
