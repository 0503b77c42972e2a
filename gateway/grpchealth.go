// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/sandbox-agent/sandbox-agent/readiness"
)

type grpcHealth struct {
	grpc_health_v1.UnimplementedHealthServer
	checker  *readiness.Checker
	services []string
}

// newGRPCHealth returns a grpc.health.v1 server that is as deep as /readyz: the
// same verdict for the server ("") and for each of the given services. It
// serves Check and List; Watch is not implemented, clients poll.
func newGRPCHealth(c *readiness.Checker, services ...string) grpc_health_v1.HealthServer {
	return &grpcHealth{checker: c, services: append([]string{""}, services...)}
}

func (g *grpcHealth) response() *grpc_health_v1.HealthCheckResponse {
	if g.checker.Ready() {
		return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}
	}
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_NOT_SERVING}
}

// Check implements grpc.health.v1.
func (g *grpcHealth) Check(_ context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if !slices.Contains(g.services, r.GetService()) {
		return nil, status.Error(codes.NotFound, "unknown service")
	}
	return g.response(), nil
}

// List implements grpc.health.v1.
func (g *grpcHealth) List(context.Context, *grpc_health_v1.HealthListRequest) (*grpc_health_v1.HealthListResponse, error) {
	m := make(map[string]*grpc_health_v1.HealthCheckResponse, len(g.services))
	for _, s := range g.services {
		m[s] = g.response()
	}
	return &grpc_health_v1.HealthListResponse{Statuses: m}, nil
}
