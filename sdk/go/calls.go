// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"

	"google.golang.org/grpc"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
)

// call makes one call and gives its error the name of the operation.
func call[Req, Resp any](ctx context.Context, op string, f func(context.Context, Req, ...grpc.CallOption) (Resp, error), req Req) (Resp, error) {
	resp, err := f(ctx, req)
	return resp, wrap(op, err)
}

// Health tells how the gateway itself is, as deep as its /readyz. It needs no
// token.
func (c *Client) Health(ctx context.Context) (*openshellv1.HealthResponse, error) {
	return call(ctx, "gateway health", c.api.Health, &openshellv1.HealthRequest{})
}

// CreateSandbox registers a sandbox and, with a driver that can, boots it; it
// does not wait until the sandbox is ready. Errors: ErrAlreadyExists,
// ErrInvalidArgument.
func (c *Client) CreateSandbox(ctx context.Context, req *openshellv1.CreateSandboxRequest) (*openshellv1.SandboxResponse, error) {
	return call(ctx, "create sandbox", c.api.CreateSandbox, req)
}

// GetSandbox returns one sandbox. Errors: ErrNotFound, ErrInvalidArgument.
func (c *Client) GetSandbox(ctx context.Context, req *openshellv1.GetSandboxRequest) (*openshellv1.SandboxResponse, error) {
	return call(ctx, "get sandbox", c.api.GetSandbox, req)
}

// StopSandbox ends the processes of a sandbox; its services stay stored.
// Errors: ErrNotFound, ErrInvalidArgument, ErrFailedPrecondition in a phase
// that cannot be stopped.
func (c *Client) StopSandbox(ctx context.Context, req *openshellv1.StopSandboxRequest) (*openshellv1.SandboxResponse, error) {
	return call(ctx, "stop sandbox", c.api.StopSandbox, req)
}

// StartSandbox begins a new generation: older tokens and observations no
// longer count. Errors: as StopSandbox.
func (c *Client) StartSandbox(ctx context.Context, req *openshellv1.StartSandboxRequest) (*openshellv1.SandboxResponse, error) {
	return call(ctx, "start sandbox", c.api.StartSandbox, req)
}

// DeleteSandbox deletes a sandbox and its services. Errors: ErrNotFound unless
// AllowMissing is set, ErrInvalidArgument.
func (c *Client) DeleteSandbox(ctx context.Context, req *openshellv1.DeleteSandboxRequest) (*openshellv1.DeleteSandboxResponse, error) {
	return call(ctx, "delete sandbox", c.api.DeleteSandbox, req)
}

// ExposeService creates or updates a service. An update without a readiness
// check keeps the stored one. Errors: ErrNotFound (no such sandbox),
// ErrInvalidArgument, ErrAborted when another update came first.
func (c *Client) ExposeService(ctx context.Context, req *openshellv1.ExposeServiceRequest) (*openshellv1.ServiceEndpointResponse, error) {
	return call(ctx, "expose service", c.api.ExposeService, req)
}

// GetService returns a service with its health at this instant; see HealthOf.
// It starts no probe. Errors: ErrNotFound, ErrInvalidArgument.
func (c *Client) GetService(ctx context.Context, req *openshellv1.GetServiceRequest) (*openshellv1.ServiceEndpointResponse, error) {
	return call(ctx, "get service", c.api.GetService, req)
}

// DeleteService deletes a service. Errors: ErrNotFound unless AllowMissing is
// set, ErrInvalidArgument.
func (c *Client) DeleteService(ctx context.Context, req *openshellv1.DeleteServiceRequest) (*openshellv1.DeleteServiceResponse, error) {
	return call(ctx, "delete service", c.api.DeleteService, req)
}
