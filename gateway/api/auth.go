// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// open are the methods that need no token: they tell whether somebody is
// there.
var open = map[string]bool{
	"/openshell.v1.OpenShell/Health": true,
	"/grpc.health.v1.Health/Check":   true,
	"/grpc.health.v1.Health/List":    true,
	"/grpc.health.v1.Health/Watch":   true,
}

// Auth lets calls through that carry the admin token, as isAdmin tells.
type Auth struct {
	isAdmin func(token string) bool
}

// NewAuth returns the interceptors of the API listener.
func NewAuth(isAdmin func(token string) bool) Auth { return Auth{isAdmin} }

func (a Auth) check(ctx context.Context, method string) error {
	if open[method] {
		return nil
	}
	md, _ := metadata.FromIncomingContext(ctx)
	values := md.Get("authorization")
	if len(values) == 0 {
		return status.Error(codes.Unauthenticated, "no token: send the gateway's admin token as \"authorization: Bearer <token>\"")
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "bearer") || !a.isAdmin(token) {
		return status.Error(codes.Unauthenticated, "the token is not the admin token of this gateway")
	}
	return nil
}

// Unary intercepts unary calls.
func (a Auth) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := a.check(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

// Stream intercepts streams.
func (a Auth) Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := a.check(stream.Context(), info.FullMethod); err != nil {
		return err
	}
	return next(srv, stream)
}
