// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/gateway/route"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

// What every request fails with while the store does not answer is one line, not
// one a request; debug has them all.
func TestRequestsWithoutAStoreAreLoggedSparingly(t *testing.T) {
	r := startLogging(t, testConfig(t), slog.DiscardHandler)
	r.untilReady()
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	conn := r.dial(true)
	const each = 10
	for range each {
		_, err := openshellv1.NewOpenShellClient(conn).ListSandboxes(t.Context(), &openshellv1.ListSandboxesRequest{})
		if status.Code(err) != codes.Internal {
			t.Fatalf("a list without a store: %v", err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.file.HTTP, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "default--web." + r.cfg.RoutingDomain
		resp, err := httpClient(nil).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable {
			t.Fatalf("a service without a store: %s", resp.Status)
		}
		stream, err := sandboxv1.NewServiceForwardClient(conn).Forward(t.Context())
		if err == nil {
			err = stream.Send(&sandboxv1.ForwardRequest{Message: &sandboxv1.ForwardRequest_Target{Target: &sandboxv1.ForwardTarget{Sandbox: "web"}}})
		}
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.Unavailable {
			t.Fatalf("a connection without a store: %v", err)
		}
	}
	counts := map[string]int{}
	for line := range strings.Lines(r.logged.String()) {
		var e struct{ Level, Msg string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		counts[e.Level+" "+e.Msg]++
	}
	for line, want := range map[string]int{
		"ERROR request failed": 1, "DEBUG request failed": each - 1,
		"WARN a service could not be looked up": 1, "DEBUG a service could not be looked up": 2*each - 1,
	} {
		if counts[line] != want {
			t.Errorf("%d of %q, want %d, in\n%s", counts[line], line, want, r.logged)
		}
	}
}

// TestEndpoint: a service is found while it exists and where it is now,
// whatever was kept of it; T22: its sandbox's phase decides, and health does
// not.
func TestEndpoint(t *testing.T) {
	ctx := context.Background()
	var s *services
	st, err := store.Open(ctx, store.Config{Dir: t.TempDir(), Changed: func(string) { s.changed() }})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	cache := health.NewCache()
	s = newServices(st, cache, time.Now())
	mutate := func(f func(store.Tx) error) {
		t.Helper()
		if _, _, err := st.Mutate(ctx, store.Request{Method: "test"}, func(tx store.Tx) ([]byte, error) { return nil, f(tx) }); err != nil {
			t.Fatal(err)
		}
	}
	want := func(name route.Name, port uint16, open bool, fault error) {
		t.Helper()
		for range 2 { // the second answer may be kept
			e, err := s.Endpoint(ctx, name)
			if !errors.Is(err, fault) || e.Port != port || e.Open != open || e.Service != name.Service && err == nil {
				t.Errorf("%+v: %+v, %v", name, e, err)
			}
		}
	}
	web, api := route.Name{Workspace: "default", Sandbox: "web"}, route.Name{Workspace: "default", Sandbox: "web", Service: "api"}
	want(web, 0, false, route.ErrNoSandbox)

	sb := store.Sandbox{ID: uuid.NewString(), Workspace: "default", Name: "web", Driver: "external", Generation: 1, Lifecycle: store.Running}
	mutate(func(tx store.Tx) (err error) { sb, err = tx.InsertSandbox(sb); return err })
	want(web, 0, false, route.ErrNoService)
	want(api, 0, false, route.ErrNoService)

	svc := store.Service{ID: uuid.NewString(), SandboxID: sb.ID, Workspace: "default", Sandbox: "web", Port: 8080}
	mutate(func(tx store.Tx) (err error) { svc, err = tx.InsertService(svc); return err })
	want(web, 8080, false, nil) // nobody has booted it
	cache.Connected(sb.ID, 1, 1, "a")
	want(web, 8080, true, nil)
	want(api, 0, false, route.ErrNoService)

	svc.Port = 8081
	mutate(func(tx store.Tx) (err error) { svc, err = tx.UpdateService(svc); return err })
	want(web, 8081, true, nil)

	sb.Lifecycle = store.Stopped
	mutate(func(tx store.Tx) (err error) { sb, err = tx.UpdateSandbox(sb); return err })
	want(web, 8081, false, nil)

	mutate(func(tx store.Tx) error { return tx.DeleteService(svc.ID, svc.ResourceVersion) })
	want(web, 0, false, route.ErrNoService)
}
