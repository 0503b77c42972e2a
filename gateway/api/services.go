// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/lifecycle"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

// validService checks how a request names a service.
func validService(sandbox, name string) error {
	if err := validName("sandbox", sandbox); err != nil || name == "" {
		return err
	}
	return validName("name", name)
}

// ExposeService implements openshell.v1.
func (s *Server) ExposeService(ctx context.Context, r *openshellv1.ExposeServiceRequest) (*openshellv1.ServiceEndpointResponse, error) {
	workspace, err := workspaceOf(r.GetWorkspaceScope())
	if err == nil {
		err = validService(r.GetSandbox(), r.GetName())
	}
	if err != nil {
		return nil, err
	}
	wanted := store.Service{ID: uuid.NewString(), Workspace: workspace, Sandbox: r.GetSandbox(), Name: r.GetName(), Domain: r.GetDomain()}
	if wanted.Port, err = validPort("target_port", r.GetTargetPort()); err != nil {
		return nil, err
	}
	if wanted.HasCheck, wanted.Path, err = checkOf("readiness_check", r.GetReadinessCheck()); err != nil {
		return nil, err
	}
	req, err := request("ExposeService", r)
	if err != nil {
		return nil, err
	}
	sb, response, again, err := s.target(ctx, req, workspace, r.GetSandbox())
	if err != nil {
		return nil, err
	}
	if again {
		return replayed(response, &openshellv1.ServiceEndpointResponse{})
	}
	wanted.SandboxID = sb.ID
	return s.expose(ctx, req, sb, wanted)
}

// expose creates or updates a service. What is updated is the version read
// here: whoever changes it in between makes this one lose.
func (s *Server) expose(ctx context.Context, req store.Request, sb store.Sandbox, wanted store.Service) (*openshellv1.ServiceEndpointResponse, error) {
	subject := serviceSubject(wanted.Workspace, wanted.Sandbox, wanted.Name)
	current, err := s.cfg.Store.Service(ctx, wanted.Workspace, wanted.Sandbox, wanted.Name)
	exists := err == nil
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, s.fail(subject, err)
	}
	var svc store.Service
	response, again, err := s.cfg.Store.Mutate(ctx, req, func(tx store.Tx) ([]byte, error) {
		now, err := tx.SandboxByID(sb.ID)
		if err == nil && now.Lifecycle == store.Deleting {
			err = lifecycle.ErrDeleting
		}
		if err != nil {
			return nil, s.fail(sandboxSubject(wanted.Workspace, wanted.Sandbox), err)
		}
		if exists {
			svc, err = tx.UpdateService(updated(current, wanted))
		} else {
			svc, err = tx.InsertService(wanted)
		}
		switch {
		case errors.Is(err, store.ErrExists), errors.Is(err, store.ErrNotFound):
			return nil, store.ErrConflict // created or deleted since it was read
		case err != nil:
			return nil, err
		}
		return proto.Marshal(s.stored(svc))
	})
	if err != nil {
		return nil, s.fail(subject, err)
	}
	if again {
		return replayed(response, &openshellv1.ServiceEndpointResponse{})
	}
	s.cfg.Refresh(sb.ID)
	return s.service(sb, svc, time.Now()), nil
}

// updated is the stored service with what an expose asks for: an omitted check
// keeps the stored one.
func updated(current, wanted store.Service) store.Service {
	current.Port, current.Domain = wanted.Port, wanted.Domain
	if wanted.HasCheck {
		current.HasCheck, current.Path = true, wanted.Path
	}
	return current
}

// GetService implements openshell.v1.
func (s *Server) GetService(ctx context.Context, r *openshellv1.GetServiceRequest) (*openshellv1.ServiceEndpointResponse, error) {
	workspace, err := workspaceOf(r.GetWorkspaceScope())
	if err == nil {
		err = validService(r.GetSandbox(), r.GetName())
	}
	if err != nil {
		return nil, err
	}
	svc, err := s.cfg.Store.Service(ctx, workspace, r.GetSandbox(), r.GetName())
	if err != nil {
		return nil, s.fail(serviceSubject(workspace, r.GetSandbox(), r.GetName()), err)
	}
	sb, err := s.cfg.Store.SandboxByID(ctx, svc.SandboxID)
	if err != nil {
		return nil, s.fail(sandboxSubject(workspace, r.GetSandbox()), err)
	}
	return s.service(sb, svc, time.Now()), nil
}

// ListServices implements openshell.v1.
func (s *Server) ListServices(ctx context.Context, r *openshellv1.ListServicesRequest) (*openshellv1.ListServicesResponse, error) {
	workspace, err := workspacesOf(r.GetWorkspaceScope())
	if err != nil {
		return nil, err
	}
	size, err := pageSize(r.GetPageSize())
	if err != nil {
		return nil, err
	}
	if r.GetSandbox() != "" {
		if workspace == "" {
			return nil, invalid("sandbox", "%.64q cannot be asked for in all workspaces; name its workspace", r.GetSandbox())
		}
		if err := validName("sandbox", r.GetSandbox()); err != nil {
			return nil, err
		}
		if _, err := s.named(ctx, workspace, r.GetSandbox()); err != nil {
			return nil, err
		}
	}
	query := queryID("services", workspace, r.GetSandbox())
	after, err := decodeToken(r.GetPageToken(), query)
	if err != nil {
		return nil, err
	}
	list, err := s.cfg.Store.Services(ctx, store.ServiceQuery{
		Workspace: workspace, Sandbox: r.GetSandbox(), AllSandboxes: r.GetSandbox() == "", After: after, Limit: size + 1,
	})
	if err != nil {
		return nil, s.fail("the list of services", err)
	}
	resp := &openshellv1.ListServicesResponse{}
	if len(list) > size {
		list = list[:size]
		last := list[size-1]
		resp.NextPageToken = encodeToken(query, store.Cursor{Workspace: last.Workspace, Sandbox: last.Sandbox, Name: last.Name})
	}
	resp.Services, err = s.withHealth(ctx, list)
	return resp, err
}

// withHealth renders services that are sorted by sandbox. One that lost its
// sandbox since it was read is left out.
func (s *Server) withHealth(ctx context.Context, list []store.Service) ([]*openshellv1.ServiceEndpointResponse, error) {
	out := make([]*openshellv1.ServiceEndpointResponse, 0, len(list))
	var sb store.Sandbox
	for _, svc := range list {
		if sb.ID != svc.SandboxID {
			var err error
			sb, err = s.cfg.Store.SandboxByID(ctx, svc.SandboxID)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, s.fail(sandboxSubject(svc.Workspace, svc.Sandbox), err)
			}
		}
		out = append(out, s.service(sb, svc, time.Now()))
	}
	return out, nil
}

// DeleteService implements openshell.v1.
func (s *Server) DeleteService(ctx context.Context, r *openshellv1.DeleteServiceRequest) (*openshellv1.DeleteServiceResponse, error) {
	workspace, err := workspaceOf(r.GetWorkspaceScope())
	if err == nil {
		err = validService(r.GetSandbox(), r.GetName())
	}
	if err != nil {
		return nil, err
	}
	req, err := request("DeleteService", r)
	if err != nil {
		return nil, err
	}
	var sandboxID string
	response, again, err := s.cfg.Store.Mutate(ctx, req, func(tx store.Tx) ([]byte, error) {
		outcome := openshellv1.DeletionOutcome_DELETION_OUTCOME_COMPLETED
		svc, err := tx.Service(workspace, r.GetSandbox(), r.GetName())
		switch {
		case err == nil:
			sandboxID = svc.SandboxID
			if err := tx.DeleteService(svc.ID, svc.ResourceVersion); err != nil {
				return nil, err
			}
		case errors.Is(err, store.ErrNotFound) && r.GetAllowMissing():
			outcome = openshellv1.DeletionOutcome_DELETION_OUTCOME_ALREADY_ABSENT
		default:
			return nil, err
		}
		return proto.Marshal(&openshellv1.DeleteServiceResponse{Outcome: outcome})
	})
	if err != nil {
		return nil, s.fail(serviceSubject(workspace, r.GetSandbox(), r.GetName()), err)
	}
	if !again && sandboxID != "" {
		s.cfg.Refresh(sandboxID)
	}
	return replayed(response, &openshellv1.DeleteServiceResponse{})
}
