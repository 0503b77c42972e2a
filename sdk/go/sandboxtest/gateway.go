// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxtest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
)

// Options of a fake gateway; the zero value is usable.
type Options struct {
	Token    string           // required of every call but Health; empty: none is
	Now      func() time.Time // times of objects; nil: time.Now
	PageSize int              // entries on a page, at most; 0: 100
}

// key names a sandbox (service is empty) or a service.
type key struct{ workspace, sandbox, service string }

func compareKeys(a, b key) int {
	return strings.Compare(a.workspace+"\x00"+a.sandbox+"\x00"+a.service, b.workspace+"\x00"+b.sandbox+"\x00"+b.service)
}

// Gateway is the fake. Make it with New.
type Gateway struct {
	openshellv1.UnimplementedOpenShellServer
	sandboxv1.UnimplementedServiceHealthWatchServer
	sandboxv1.UnimplementedServiceForwardServer
	o Options

	mu        sync.Mutex
	version   uint64
	sandboxes map[key]*openshellv1.Sandbox
	services  map[key]*openshellv1.ServiceEndpoint
	health    map[key]*openshellv1.ServiceHealth
	own       *openshellv1.HealthResponse
	fail      map[string]error
	hang      map[string]func() // closes what Hang returned
	requests  []proto.Message

	transitions map[key]*sandboxv1.ListServiceTransitionsResponse
	changed     chan struct{} // closed at a change, then replaced
	open        map[*call]struct{}
	muted       int
}

// New makes an empty, healthy gateway.
func New(o Options) *Gateway {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.PageSize == 0 {
		o.PageSize = 100
	}
	return &Gateway{
		o:         o,
		sandboxes: map[key]*openshellv1.Sandbox{},
		services:  map[key]*openshellv1.ServiceEndpoint{},
		health:    map[key]*openshellv1.ServiceHealth{},
		own:       &openshellv1.HealthResponse{Status: openshellv1.ServiceStatus_SERVICE_STATUS_HEALTHY, Version: "0.0.0-fake"},
		fail:      map[string]error{},
		hang:      map[string]func(){},

		transitions: map[key]*sandboxv1.ListServiceTransitionsResponse{},
		changed:     make(chan struct{}),
		open:        map[*call]struct{}{},
	}
}

// PutSandbox stores a sandbox as it is, under the workspace and name of its
// metadata.
func (g *Gateway) PutSandbox(s *openshellv1.Sandbox) {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.notify()
	g.sandboxes[key{workspaceOr(s.GetMetadata().GetWorkspace()), s.GetMetadata().GetName(), ""}] = proto.CloneOf(s)
}

// PutService stores a service and its health as they are; nil health means
// none is answered.
func (g *Gateway) PutService(e *openshellv1.ServiceEndpoint, h *openshellv1.ServiceHealth) {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.notify()
	k := key{workspaceOr(e.GetMetadata().GetWorkspace()), e.GetSandbox(), e.GetName()}
	g.services[k], g.health[k] = proto.CloneOf(e), proto.CloneOf(h)
}

// SetHealth replaces the health of a service.
func (g *Gateway) SetHealth(workspace, sandbox, service string, h *openshellv1.ServiceHealth) {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.notify()
	g.health[key{workspaceOr(workspace), sandbox, service}] = proto.CloneOf(h)
}

// SetOwnHealth replaces what Health answers.
func (g *Gateway) SetOwnHealth(h *openshellv1.HealthResponse) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.own = proto.CloneOf(h)
}

// Fail makes every call of a method ("GetService") end with err, a gRPC
// status; nil heals it.
func (g *Gateway) Fail(method string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fail[method] = err
}

// Hang makes every call of a method wait until its caller gives up. The
// channel is closed when the first such call has arrived.
func (g *Gateway) Hang(method string) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	arrived := make(chan struct{})
	g.hang[method] = sync.OnceFunc(func() { close(arrived) })
	return arrived
}

// Requests returns what was asked so far, in the order of arrival, refused
// calls too.
func (g *Gateway) Requests() []proto.Message {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.requests)
}

// admit records a request and decides whether it is carried out.
func (g *Gateway) admit(ctx context.Context, method string, req proto.Message, token string) error {
	g.mu.Lock()
	g.requests = append(g.requests, proto.Clone(req))
	fail, hang := g.fail[method], g.hang[method]
	g.mu.Unlock()
	switch {
	case method != "Health" && g.o.Token != "" && token != "Bearer "+g.o.Token:
		return status.Error(codes.Unauthenticated, "the token is not valid")
	case fail != nil:
		return fail
	case hang != nil:
		hang()
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	}
	return nil
}

// meta makes the metadata of a new object; the caller holds the lock.
func (g *Gateway) meta(workspace, name string, labels, annotations map[string]string) *datamodelv1.ObjectMeta {
	g.version++
	return &datamodelv1.ObjectMeta{
		Id:              "id-" + itoa(g.version),
		Name:            name,
		Labels:          maps.Clone(labels),
		Annotations:     maps.Clone(annotations),
		ResourceVersion: g.version,
		Workspace:       workspace,
		CreatedTime:     timestamppb.New(g.o.Now()),
	}
}

// one returns the workspace of a request about one object.
func one(s *datamodelv1.WorkspaceSelector) (string, error) {
	if s.GetAllWorkspaces() != nil {
		return "", status.Error(codes.InvalidArgument, "workspace_scope: all workspaces are for lists only")
	}
	return workspaceOr(s.GetWorkspace()), nil
}

func workspaceOr(name string) string {
	if name == "" {
		return "default"
	}
	return name
}
