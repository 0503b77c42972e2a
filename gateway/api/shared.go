// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"time"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

// What follows is for the other services of the API listener, so that they
// take the same input for right and say the same in the same words.

// Service renders a service with an answer about it as of now.
func (u URLs) Service(svc store.Service, a health.Answer, now time.Time) *openshellv1.ServiceEndpointResponse {
	return &openshellv1.ServiceEndpointResponse{
		Endpoint: endpoint(svc),
		Url:      u.URL(svc.Workspace, svc.Sandbox, svc.Name),
		Health:   Health(a, svc.HasCheck, now),
	}
}

// LifecycleOf tells of a stored sandbox what its phase depends on.
func LifecycleOf(sb store.Sandbox) health.Lifecycle { return lifecycleOf(sb) }

// Workspace returns the one workspace that a request works in, or
// InvalidArgument.
func Workspace(sel *datamodelv1.WorkspaceSelector) (string, error) { return workspaceOf(sel) }

// Workspaces is Workspace for requests that may ask for all of them, which is
// "".
func Workspaces(sel *datamodelv1.WorkspaceSelector) (string, error) { return workspacesOf(sel) }

// ValidName returns InvalidArgument, which names the field, unless name can be
// that of a workspace, sandbox or service.
func ValidName(field, name string) error { return validName(field, name) }

// Selector reads a label selector: the labels that a sandbox must carry.
func Selector(text string) (map[string]string, error) { return selector(text) }

// Invalid is an InvalidArgument that names the field and what is wrong.
func Invalid(field, format string, args ...any) error { return invalid(field, format, args...) }

// ServiceSubject names a service in people's words.
func ServiceSubject(workspace, sandbox, name string) string {
	return serviceSubject(workspace, sandbox, name)
}
