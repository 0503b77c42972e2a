// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/api"
	"github.com/sandbox-agent/sandbox-agent/gateway/watch"
	"github.com/sandbox-agent/sandbox-agent/gateway/web"
	"github.com/sandbox-agent/sandbox-agent/internal/buildinfo"
)

// page serves the HTTP listener's own host: the status page, and what is
// asked of the gateway's own health.
func (g *Gateway) page(users *api.Server) http.Handler {
	addr, tcp := g.listeners.http.Addr().(*net.TCPAddr)
	return web.New(web.Config{
		Source: pageSource{g.watch, users}, IsAdmin: g.identity.IsAdmin, Key: g.identity.AdminToken(),
		Loopback: tcp && addr.IP.IsLoopback(), Now: time.Now, Version: buildinfo.Version,
		Next: g.checker.Handler(false),
	})
}

// pageSource lets the status page ask what any client can ask, without a
// connection in between.
type pageSource struct {
	watch *watch.Server
	users *api.Server
}

var _ web.Source = pageSource{}

func everywhere() *datamodelv1.WorkspaceSelector {
	return &datamodelv1.WorkspaceSelector{Selection: &datamodelv1.WorkspaceSelector_AllWorkspaces{AllWorkspaces: &datamodelv1.AllWorkspaces{}}}
}

// Watch implements web.Source.
func (p pageSource) Watch(ctx context.Context, send func(*sandboxv1.WatchServicesResponse) error) error {
	err := p.watch.WatchServices(&sandboxv1.WatchServicesRequest{WorkspaceScope: everywhere()}, pageStream{ctx: ctx, send: send})
	if s, ok := status.FromError(err); ok && s.Code() != codes.OK {
		return errors.New(s.Message())
	}
	return err
}

// History implements web.Source.
func (p pageSource) History(ctx context.Context, workspace, sandbox, name string) (*sandboxv1.ListServiceTransitionsResponse, error) {
	return p.watch.ListServiceTransitions(ctx, &sandboxv1.ListServiceTransitionsRequest{
		WorkspaceScope: &datamodelv1.WorkspaceSelector{Selection: &datamodelv1.WorkspaceSelector_Workspace{Workspace: workspace}},
		Sandbox:        sandbox, Name: name,
	})
}

// Sandboxes implements web.Source.
func (p pageSource) Sandboxes(ctx context.Context) (all []*openshellv1.Sandbox, err error) {
	r := &openshellv1.ListSandboxesRequest{WorkspaceScope: everywhere(), PageSize: 1000}
	for {
		list, err := p.users.ListSandboxes(ctx, r)
		if err != nil {
			return nil, err
		}
		all = append(all, list.GetSandboxes()...)
		if r.PageToken = list.GetNextPageToken(); r.PageToken == "" {
			return all, nil
		}
	}
}

// pageStream is the end of a watch that a client's connection is otherwise.
type pageStream struct {
	grpc.ServerStream
	ctx  context.Context
	send func(*sandboxv1.WatchServicesResponse) error
}

// Context implements grpc.ServerStream.
func (s pageStream) Context() context.Context { return s.ctx }

// Send implements grpc.ServerStreamingServer.
func (s pageStream) Send(m *sandboxv1.WatchServicesResponse) error { return s.send(m) }
