// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	"github.com/sandbox-agent/sandbox-agent/internal/secret"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const adminToken = "the-admin-token-of-tests"

// world is a Server over a source that tests write.
type world struct {
	*Server
	mu      sync.Mutex
	now     time.Time
	lists   int
	listErr error
	// watch is what Watch does after the full state was sent.
	watch func(ctx context.Context, send func(*sandboxv1.WatchServicesResponse) error) error
}

func newWorld(edit ...func(*Config)) *world {
	w := &world{now: time.Unix(1700000000, 0)}
	w.watch = func(ctx context.Context, _ func(*sandboxv1.WatchServicesResponse) error) error {
		<-ctx.Done()
		return ctx.Err()
	}
	cfg := Config{
		Source: w, IsAdmin: func(token string) bool { return token == adminToken }, Key: secret.New(adminToken),
		Now: func() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.now }, Version: "1.2.3",
		Next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }),
	}
	for _, f := range edit {
		f(&cfg)
	}
	w.Server = New(cfg)
	return w
}

func onLoopback(c *Config) { c.Loopback = true }

func (w *world) Watch(ctx context.Context, send func(*sandboxv1.WatchServicesResponse) error) error {
	first := &sandboxv1.WatchServicesResponse{Sequence: 1, Complete: true, Services: []*sandboxv1.WatchedService{watched(1, healthy)}}
	if err := send(first); err != nil {
		return err
	}
	return w.watch(ctx, send)
}

const (
	healthy   = openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_HEALTHY
	unhealthy = openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_UNHEALTHY
	unknown   = openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_UNKNOWN
)

func watched(number uint32, state openshellv1.ServiceHealthState) *sandboxv1.WatchedService {
	return &sandboxv1.WatchedService{
		Number: number, SandboxPhase: openshellv1.SandboxPhase_SANDBOX_PHASE_READY, AgeMs: proto.Uint32(1500),
		Service: &openshellv1.ServiceEndpointResponse{
			Url: "http://default--web.sandbox.localhost/",
			Endpoint: &openshellv1.ServiceEndpoint{
				Metadata: &datamodelv1.ObjectMeta{Workspace: "default"}, Sandbox: "web", TargetPort: 8080,
				ReadinessCheck: &openshellv1.HttpReadinessCheck{Path: "/ready"},
			},
			Health: &openshellv1.ServiceHealth{State: state, Reason: "OK", Message: "the readiness path answered 200", HttpStatusCode: proto.Uint32(200)},
		},
	}
}

func (w *world) History(_ context.Context, workspace, sandbox, name string) (*sandboxv1.ListServiceTransitionsResponse, error) {
	if workspace != "default" || sandbox != "web" || name != "" {
		return nil, errors.New("no such service")
	}
	read := time.Unix(1000, 0)
	return &sandboxv1.ListServiceTransitionsResponse{
		RecordedSince: timestamppb.New(read.Add(-time.Minute)), ReadTime: timestamppb.New(read),
		Transitions: []*sandboxv1.ServiceTransition{{
			Time: timestamppb.New(read.Add(-30 * time.Second)), ToState: healthy, ToReason: "OK",
			Cause: sandboxv1.TransitionCause_TRANSITION_CAUSE_REPORT, HttpStatusCode: proto.Uint32(200),
		}},
	}, nil
}

func (w *world) Sandboxes(context.Context) ([]*openshellv1.Sandbox, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lists++
	return []*openshellv1.Sandbox{{
		Metadata: &datamodelv1.ObjectMeta{Workspace: "default", Name: "idle"},
		Status: &openshellv1.SandboxStatus{
			Phase: openshellv1.SandboxPhase_SANDBOX_PHASE_STOPPED,
			Conditions: []*openshellv1.SandboxCondition{
				{Type: "Runtime", Message: "a path of this machine"}, {Type: "Ready", Message: "the sandbox is stopped"},
			},
		},
	}}, w.listErr
}

// request is one to the page from a browser that shows it, edited by lines
// "Name: value"; the pseudo headers Host and From are the request's own.
func request(method, path, body string, lines ...string) *http.Request {
	r := httptest.NewRequest(method, "http://localhost:17680"+path, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:50000"
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ": ")
		switch name {
		case "Host":
			r.Host = value
		case "From":
			r.RemoteAddr = value
		default:
			r.Header.Add(name, value)
		}
	}
	return r
}

// ask answers a request whose client leaves at once.
func (w *world) ask(r *http.Request) *httptest.ResponseRecorder {
	ctx, cancel := context.WithCancel(r.Context())
	cancel()
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r.WithContext(ctx))
	return rec
}
