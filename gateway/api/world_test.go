// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/gateway/lifecycle"
	"github.com/sandbox-agent/sandbox-agent/gateway/runtime"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
	"github.com/sandbox-agent/sandbox-agent/internal/secret"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const adminToken = "the-admin-token"

// world is the API over a real store and a real gRPC connection, and drivers
// that boot nothing.
type world struct {
	t         testing.TB
	store     *store.Store
	cache     *health.Cache
	lifecycle *lifecycle.Manager
	driver    *fakeDriver
	ready     bool
	conn      *grpc.ClientConn
	openshellv1.OpenShellClient

	mu        sync.Mutex
	now       time.Time // of the store
	started   time.Time
	refreshed []string
	reads     map[string]int // of the store, by operation
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{
		t: t, cache: health.NewCache(), driver: &fakeDriver{}, ready: true,
		now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), started: time.Now().Add(-time.Hour), reads: make(map[string]int),
	}
	var err error
	if w.store, err = store.Open(context.Background(), store.Config{
		Dir: t.TempDir(), Logger: testkit.Logger(t), Now: w.clock, Observe: w.observe,
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.store.Close() })
	w.lifecycle = lifecycle.New(lifecycle.Config{
		Store: w.store, Drivers: map[string]runtime.Driver{"external": w.driver, "local": w.driver}, Cache: w.cache,
		Logger: testkit.Logger(t), Now: w.clock, Disconnect: func(string) {},
		Issue: func(string, uint64) (secret.String, time.Time, error) { return secret.New("t"), time.Time{}, nil },
	})
	t.Cleanup(func() { w.lifecycle.Wait(context.Background()) })
	w.serve()
	return w
}

// serve starts a gRPC server with the interceptors, and a client that has the
// token.
func (w *world) serve() {
	auth := NewAuth(func(token string) bool { return token == adminToken })
	srv := grpc.NewServer(grpc.UnaryInterceptor(auth.Unary), grpc.StreamInterceptor(auth.Stream), grpc.UnknownServiceHandler(Missing))
	openshellv1.RegisterOpenShellServer(srv, w.server())
	reflection.Register(srv)
	l := bufconn.Listen(1 << 16)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:///api",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		w.t.Fatal(err)
	}
	w.conn, w.OpenShellClient = conn, openshellv1.NewOpenShellClient(conn)
	w.t.Cleanup(func() {
		conn.Close()
		srv.Stop()
		if err := <-served; err != nil {
			w.t.Error(err)
		}
	})
}

func (w *world) server() *Server {
	return New(Config{
		Store: w.store, Lifecycle: w.lifecycle, Cache: w.cache,
		Refresh: func(id string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.refreshed = append(w.refreshed, id)
		},
		URLs: URLs{Scheme: "http", Domain: "sandbox.localhost", Port: "17680"},
		Hint: func(s store.Sandbox) string {
			if s.Driver != "external" {
				return ""
			}
			return "boot it yourself"
		},
		DefaultDriver: "external", Ready: func() bool { return w.ready }, Version: "1.2.3",
		Started: w.started, Logger: testkit.Logger(w.t),
	})
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) observe(op string, _ time.Duration, _ error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads[op]++
}

func (w *world) count(op string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reads[op]
}

// admin carries the token.
func admin(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+adminToken)
}

// call sends a request to the RPC that takes it.
func (w *world) call(req proto.Message) (proto.Message, error) {
	method := strings.TrimSuffix(string(req.ProtoReflect().Descriptor().Name()), "Request")
	answers := map[string]proto.Message{
		"Health": &openshellv1.HealthResponse{}, "CreateSandbox": &openshellv1.SandboxResponse{},
		"GetSandbox": &openshellv1.SandboxResponse{}, "ListSandboxes": &openshellv1.ListSandboxesResponse{},
		"StopSandbox": &openshellv1.SandboxResponse{}, "StartSandbox": &openshellv1.SandboxResponse{},
		"DeleteSandbox": &openshellv1.DeleteSandboxResponse{}, "ExposeService": &openshellv1.ServiceEndpointResponse{},
		"GetService": &openshellv1.ServiceEndpointResponse{}, "ListServices": &openshellv1.ListServicesResponse{},
		"DeleteService": &openshellv1.DeleteServiceResponse{}, "GetCurrentUser": &openshellv1.GetCurrentUserResponse{},
		"GetGatewayInfo": &openshellv1.GetGatewayInfoResponse{}, "GetWorkspace": &openshellv1.GetWorkspaceResponse{},
		"ListWorkspaces": &openshellv1.ListWorkspacesResponse{},
	}
	resp := answers[method]
	err := w.conn.Invoke(admin(context.Background()), "/openshell.v1.OpenShell/"+method, req, resp)
	return resp, err
}

// must is call for what has to succeed.
func must[M proto.Message](w *world, req proto.Message) M {
	w.t.Helper()
	resp, err := w.call(req)
	if err != nil {
		w.t.Fatalf("%T: %v", req, err)
	}
	return resp.(M)
}

func (w *world) create(name string, exposures ...*openshellv1.SandboxServiceExposure) *openshellv1.Sandbox {
	w.t.Helper()
	return must[*openshellv1.SandboxResponse](w, &openshellv1.CreateSandboxRequest{Name: name, ServiceExposures: exposures}).GetSandbox()
}

func (w *world) expose(r *openshellv1.ExposeServiceRequest) *openshellv1.ServiceEndpointResponse {
	w.t.Helper()
	return must[*openshellv1.ServiceEndpointResponse](w, r)
}

func (w *world) service(sandbox, name string) *openshellv1.ServiceEndpointResponse {
	w.t.Helper()
	return must[*openshellv1.ServiceEndpointResponse](w, &openshellv1.GetServiceRequest{Sandbox: sandbox, Name: name})
}

func wantError(t testing.TB, what string, err error, code codes.Code, message string) {
	t.Helper()
	if got := status.Convert(err); got.Code() != code || got.Message() != message {
		t.Errorf("%s: %v %q\nwant %v %q", what, got.Code(), got.Message(), code, message)
	}
}

func workspace(name string) *datamodelv1.WorkspaceSelector {
	return &datamodelv1.WorkspaceSelector{Selection: &datamodelv1.WorkspaceSelector_Workspace{Workspace: name}}
}

func allWorkspaces() *datamodelv1.WorkspaceSelector {
	return &datamodelv1.WorkspaceSelector{Selection: &datamodelv1.WorkspaceSelector_AllWorkspaces{AllWorkspaces: &datamodelv1.AllWorkspaces{}}}
}

func check(path string) *openshellv1.HttpReadinessCheck {
	return &openshellv1.HttpReadinessCheck{Path: path}
}

// everything is all that a request could change.
type everything struct {
	sandboxes []store.Sandbox
	services  []store.Service
	driver    []string
	refreshed []string
}

func (w *world) everything() (e everything) {
	w.t.Helper()
	var err1, err2 error
	e.sandboxes, err1 = w.store.Sandboxes(context.Background(), store.SandboxQuery{})
	e.services, err2 = w.store.Services(context.Background(), store.ServiceQuery{AllSandboxes: true})
	if err := errors.Join(err1, err2); err != nil {
		w.t.Fatal(err)
	}
	e.driver = w.driver.calls()
	w.mu.Lock()
	defer w.mu.Unlock()
	e.refreshed = slices.Clone(w.refreshed)
	return e
}

// unchanged fails if anything was changed since before.
func (w *world) unchanged(what string, before everything) {
	w.t.Helper()
	if after := w.everything(); !reflect.DeepEqual(after, before) {
		w.t.Errorf("%s changed something:\n%+v\nwas\n%+v", what, after, before)
	}
}

// agent is a live session of a sandbox, as the cache sees it.
type agent struct {
	w          *world
	sandboxID  string
	instance   string
	generation uint64
	reported   map[string]health.Observation
}

func (w *world) agent(sandboxID, instance string) *agent {
	sb, err := w.store.SandboxByID(context.Background(), sandboxID)
	if err != nil {
		w.t.Fatal(err)
	}
	w.cache.Connected(sandboxID, 1, sb.Generation, instance)
	return &agent{w: w, sandboxID: sandboxID, instance: instance, reported: make(map[string]health.Observation)}
}

// report says of a stored service what o says; the rest is filled in.
func (a *agent) report(name string, o health.Observation) {
	a.w.t.Helper()
	list, err := a.w.store.ServicesOf(context.Background(), a.sandboxID)
	if err != nil {
		a.w.t.Fatal(err)
	}
	now := time.Now()
	for _, svc := range list {
		if svc.Name == name {
			o.ServiceID, o.Instance, o.Revision = svc.ID, a.instance, svc.Revision
			o.Latest, o.Conclusive, o.Since = now, now, now
			a.reported[svc.ID] = o
		}
	}
	a.generation++
	var all []health.Observation
	desired := make(map[string]bool)
	for id, o := range a.reported {
		all, desired[id] = append(all, o), true
	}
	if !a.w.cache.Reported(a.sandboxID, 1, a.generation, all, desired) {
		a.w.t.Fatal("the report was not taken")
	}
}

var passed = health.Observation{State: probe.Healthy, Outcome: probe.Pass, Reason: probe.OK, Code: 200}

// fakeDriver notes what it is asked; before may fail or hold a call.
type fakeDriver struct {
	runtime.Driver // the rest is not called
	before         func(op string) error

	mu   sync.Mutex
	seen []string
}

func (d *fakeDriver) calls() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.seen)
}

func (d *fakeDriver) do(op, id string) error {
	d.mu.Lock()
	d.seen = append(d.seen, fmt.Sprint(op, " ", id))
	d.mu.Unlock()
	if d.before != nil {
		return d.before(op)
	}
	return nil
}

func (d *fakeDriver) Start(_ context.Context, s runtime.Spec) error { return d.do("start", s.ID) }
func (d *fakeDriver) Stop(_ context.Context, id string) error       { return d.do("stop", id) }
func (d *fakeDriver) Delete(_ context.Context, id string) error     { return d.do("delete", id) }

// eventually polls what cannot be waited for.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: not within 10 s", what)
		}
	}
}
