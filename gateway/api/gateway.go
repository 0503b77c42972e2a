// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
)

// Health implements openshell.v1.
func (s *Server) Health(context.Context, *openshellv1.HealthRequest) (*openshellv1.HealthResponse, error) {
	return &openshellv1.HealthResponse{Status: s.status(), Version: s.cfg.Version}, nil
}

func (s *Server) status() openshellv1.ServiceStatus {
	if s.cfg.Ready() {
		return openshellv1.ServiceStatus_SERVICE_STATUS_HEALTHY
	}
	return openshellv1.ServiceStatus_SERVICE_STATUS_UNHEALTHY
}

// GetGatewayInfo implements openshell.v1.
func (s *Server) GetGatewayInfo(context.Context, *openshellv1.GetGatewayInfoRequest) (*openshellv1.GetGatewayInfoResponse, error) {
	return &openshellv1.GetGatewayInfoResponse{
		Status: s.status(), GatewayVersion: s.cfg.Version,
		ComputeDrivers: []*openshellv1.ComputeDriverInfo{{
			Name:         s.cfg.DefaultDriver,
			Capabilities: &openshellv1.ComputeDriverCapabilities{DriverName: s.cfg.DefaultDriver, DriverVersion: s.cfg.Version},
		}},
	}, nil
}

// GetCurrentUser implements openshell.v1: a call that came this far carried
// the admin token, which allows everything.
func (s *Server) GetCurrentUser(context.Context, *openshellv1.GetCurrentUserRequest) (*openshellv1.GetCurrentUserResponse, error) {
	return &openshellv1.GetCurrentUserResponse{
		Subject: "admin", DisplayName: "holder of the admin token", IdentityProvider: "admin-token",
		Roles:  []string{"platform_admin"},
		Scopes: []string{"config:read", "sandbox:read", "sandbox:write", "workspace:read"},
	}, nil
}
