// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/gateway/runtime"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

const (
	unknown   = openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_UNKNOWN
	healthy   = openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_HEALTHY
	unhealthy = openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_UNHEALTHY
)

func wantHealth(t testing.TB, what string, r *openshellv1.ServiceEndpointResponse, state openshellv1.ServiceHealthState, reason string) {
	t.Helper()
	if h := r.GetHealth(); h.GetState() != state || h.GetReason() != reason {
		t.Errorf("%s: %v %q, want %v %q", what, h.GetState(), h.GetReason(), state, reason)
	}
}

// stored returns the service as the store has it.
func (w *world) stored(sandbox, name string) store.Service {
	w.t.Helper()
	svc, err := w.store.Service(context.Background(), "default", sandbox, name)
	if err != nil {
		w.t.Fatal(err)
	}
	return svc
}

func TestExposeCreates(t *testing.T) {
	w := newWorld(t)
	sb := w.create("web")
	r := w.expose(&exposeReq{Sandbox: "web", Name: "api", TargetPort: 8080, Domain: true})
	e := r.GetEndpoint()
	if e.GetSandboxId() != sb.GetMetadata().GetId() || e.GetSandbox() != "web" || e.GetName() != "api" || e.GetTargetPort() != 8080 ||
		!e.GetDomain() || e.GetReadinessCheck() != nil {
		t.Errorf("endpoint %v", e)
	}
	m := e.GetMetadata()
	if m.GetId() == "" || m.GetName() != "api" || m.GetWorkspace() != "default" || m.GetResourceVersion() == 0 || !m.GetCreatedTime().AsTime().Equal(w.clock()) {
		t.Errorf("metadata %v", m)
	}
	if r.GetUrl() != "http://default--web--api.sandbox.localhost:17680/" {
		t.Errorf("url %q", r.GetUrl())
	}
	wantHealth(t, "before any session", r, unknown, "SandboxNotReady")
	if got := w.everything().refreshed; !slices.Equal(got, []string{sb.GetMetadata().GetId()}) {
		t.Errorf("refreshed %q", got)
	}
	w.agent(sb.GetMetadata().GetId(), "one")
	wantHealth(t, "not observed", w.expose(&exposeReq{Sandbox: "web", TargetPort: 80}), unknown, "NotObserved")
}

// An empty path is the root, and still a readiness check.
func TestCheckWithoutPathIsTheRoot(t *testing.T) {
	w := newWorld(t)
	w.create("web", &exposure{Service: "made", TargetPort: 80, ReadinessCheck: check("")}, &exposure{Service: "plain", TargetPort: 80})
	r := w.expose(&exposeReq{Sandbox: "web", Name: "api", TargetPort: 8080, ReadinessCheck: check("")})
	for name, got := range map[string]*openshellv1.ServiceEndpointResponse{
		"answered": r, "stored": w.service("web", "api"), "made with the sandbox": w.service("web", "made"),
	} {
		if c := got.GetEndpoint().GetReadinessCheck(); c == nil || c.GetPath() != "/" {
			t.Errorf("%s: %v, want the path /", name, c)
		}
	}
	if c := w.service("web", "plain").GetEndpoint().GetReadinessCheck(); c != nil {
		t.Errorf("without a check: %v", c)
	}
	before := w.stored("web", "api")
	w.expose(&exposeReq{Sandbox: "web", Name: "api", TargetPort: 8080, ReadinessCheck: check("/")})
	if after := w.stored("web", "api"); after.Revision != before.Revision || after.ResourceVersion != before.ResourceVersion {
		t.Errorf("/ instead of the empty path changed %+v to %+v", before, after)
	}
}

// TestUpdates goes through updates of one service that is healthy before each.
func TestUpdates(t *testing.T) {
	const changed = "ConfigurationChanged"
	for _, c := range []struct {
		name       string
		first      *exposeReq
		update     *exposeReq
		port       uint32
		path       string // "": no check
		configured bool   // the effective configuration has changed
		written    bool
	}{
		{"the same", &exposeReq{TargetPort: 80}, &exposeReq{TargetPort: 80}, 80, "", false, false},
		{"an omitted check is kept", &exposeReq{TargetPort: 80, ReadinessCheck: check("/r")}, &exposeReq{TargetPort: 80}, 80, "/r", false, false},
		{"another port, check kept", &exposeReq{TargetPort: 80, ReadinessCheck: check("/r")}, &exposeReq{TargetPort: 81}, 81, "/r", true, true},
		{"the same check", &exposeReq{TargetPort: 80, ReadinessCheck: check("/r")}, &exposeReq{TargetPort: 80, ReadinessCheck: check("/r")}, 80, "/r", false, false},
		{"another path", &exposeReq{TargetPort: 80, ReadinessCheck: check("/r")}, &exposeReq{TargetPort: 80, ReadinessCheck: check("/s")}, 80, "/s", true, true},
		{"the path becomes the root", &exposeReq{TargetPort: 80, ReadinessCheck: check("/r")}, &exposeReq{TargetPort: 80, ReadinessCheck: check("")}, 80, "/", true, true},
		{"a check is added", &exposeReq{TargetPort: 80}, &exposeReq{TargetPort: 80, ReadinessCheck: check("")}, 80, "/", true, true},
		{"another port", &exposeReq{TargetPort: 80}, &exposeReq{TargetPort: 81}, 81, "", true, true},
		{"a domain alone", &exposeReq{TargetPort: 80}, &exposeReq{TargetPort: 80, Domain: true}, 80, "", false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			id := w.create("web").GetMetadata().GetId()
			c.first.Sandbox, c.update.Sandbox = "web", "web"
			w.expose(c.first)
			agent := w.agent(id, "one")
			agent.report("", passed)
			wantHealth(t, "before", w.service("web", ""), healthy, "OK")
			before := w.stored("web", "")
			r := w.expose(c.update)
			if e := r.GetEndpoint(); e.GetTargetPort() != c.port || e.GetReadinessCheck().GetPath() != c.path || (e.GetReadinessCheck() != nil) != (c.path != "") {
				t.Errorf("endpoint %v", e)
			}
			after := w.stored("web", "")
			if written := after.ResourceVersion > before.ResourceVersion; written != c.written {
				t.Errorf("version %d, was %d", after.ResourceVersion, before.ResourceVersion)
			}
			if r.GetEndpoint().GetMetadata().GetResourceVersion() != after.ResourceVersion || !proto.Equal(r.GetEndpoint(), w.service("web", "").GetEndpoint()) {
				t.Errorf("answered %v, stored %+v", r, after)
			}
			if configured := after.Revision != before.Revision; configured != c.configured {
				t.Errorf("revision %d, was %d", after.Revision, before.Revision)
			}
			if !c.configured {
				wantHealth(t, "in the answer", r, healthy, "OK")
				return
			}
			wantHealth(t, "in the answer", r, unknown, changed)
			wantHealth(t, "read", w.service("web", ""), unknown, changed)
			if h := r.GetHealth(); h.LastCheckedTime != nil || h.HttpStatusCode != nil || h.Latency != nil {
				t.Errorf("health of another configuration is shown: %v", h)
			}
			agent.report("", passed)
			wantHealth(t, "once observed", w.service("web", ""), healthy, "OK")
		})
	}
}

// A check is removed by deleting the service; what follows is a new one.
func TestDeleteAndCreateIsANewService(t *testing.T) {
	w := newWorld(t)
	id := w.create("web").GetMetadata().GetId()
	w.expose(&exposeReq{Sandbox: "web", TargetPort: 80, ReadinessCheck: check("/r")})
	agent := w.agent(id, "one")
	agent.report("", passed)
	old := w.stored("web", "")
	if r := must[*openshellv1.DeleteServiceResponse](w, &deleteServiceReq{Sandbox: "web"}); r.GetOutcome() != openshellv1.DeletionOutcome_DELETION_OUTCOME_COMPLETED {
		t.Errorf("outcome %v", r.GetOutcome())
	}
	_, err := w.call(&getServiceReq{Sandbox: "web"})
	wantError(t, "after the deletion", err, codes.NotFound, `the unnamed service of sandbox "web" in workspace "default" does not exist`)
	r := w.expose(&exposeReq{Sandbox: "web", TargetPort: 80})
	wantHealth(t, "the new one", r, unknown, "NotObserved")
	if now := w.stored("web", ""); now.HasCheck || now.ID == old.ID || now.Revision <= old.Revision {
		t.Errorf("stored %+v, was %+v", now, old)
	}
	if got := w.everything().refreshed; len(got) != 3 {
		t.Errorf("the agent was told %d times of 3 changes", len(got))
	}
}

// race runs two requests that have both read the service before either may
// write.
func (w *world) race(a, b proto.Message) (errs [2]error) {
	w.t.Helper()
	reads := w.count("service")
	writing := make(chan error, 1)
	held, release := make(chan struct{}), make(chan struct{})
	go func() {
		_, _, err := w.store.Mutate(context.Background(), store.Request{}, func(store.Tx) ([]byte, error) {
			close(held)
			<-release
			return nil, errors.New("roll back")
		})
		writing <- err
	}()
	<-held
	done := [2]chan error{make(chan error, 1), make(chan error, 1)}
	for i, req := range []proto.Message{a, b} {
		go func() { _, err := w.call(req); done[i] <- err }()
	}
	eventually(w.t, "both have read", func() bool { return w.count("service") == reads+2 })
	close(release)
	<-writing
	return [2]error{<-done[0], <-done[1]}
}

func TestConcurrentExposures(t *testing.T) {
	const lost = `the unnamed service of sandbox "web" in workspace "default" was changed by somebody else meanwhile: read it and try again`
	for name, prepare := range map[string]func(w *world){
		"updates": func(w *world) { w.expose(&exposeReq{Sandbox: "web", TargetPort: 1}) },
		"creates": func(*world) {},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.create("web")
			prepare(w)
			errs := w.race(&exposeReq{Sandbox: "web", TargetPort: 2}, &exposeReq{Sandbox: "web", TargetPort: 3})
			winner := slices.Index(errs[:], nil)
			if winner < 0 || errs[1-winner] == nil {
				t.Fatalf("errors %v, want exactly one winner", errs)
			}
			wantError(t, "the loser", errs[1-winner], codes.Aborted, lost)
			if port := w.stored("web", "").Port; port != uint16(2+winner) {
				t.Errorf("port %d is stored, winner %d", port, winner)
			}
		})
	}
	t.Run("of different services", func(t *testing.T) {
		w := newWorld(t)
		w.create("web")
		if errs := w.race(&exposeReq{Sandbox: "web", Name: "a", TargetPort: 2}, &exposeReq{Sandbox: "web", Name: "b", TargetPort: 3}); errs != [2]error{} {
			t.Errorf("errors %v", errs)
		}
	})
}

// An update of what is deleted meanwhile loses as any other does: the service
// may have been meant to be gone.
func TestUpdateLosesAgainstDelete(t *testing.T) {
	for _, gone := range []string{"service", "sandbox"} {
		t.Run(gone, func(t *testing.T) {
			w := newWorld(t)
			w.create("web")
			w.expose(&exposeReq{Sandbox: "web", TargetPort: 1})
			svc := w.stored("web", "")
			reads := w.count("service")
			done := make(chan error, 1)
			if _, _, err := w.store.Mutate(context.Background(), store.Request{}, func(tx store.Tx) ([]byte, error) {
				go func() { _, err := w.call(&exposeReq{Sandbox: "web", TargetPort: 2}); done <- err }()
				eventually(t, "it has read", func() bool { return w.count("service") == reads+1 })
				if gone == "sandbox" {
					return nil, tx.DeleteSandbox(svc.SandboxID)
				}
				return nil, tx.DeleteService(svc.ID, 0)
			}); err != nil {
				t.Fatal(err)
			}
			want := map[string]codes.Code{"service": codes.Aborted, "sandbox": codes.NotFound}[gone]
			message := map[string]string{
				"service": `the unnamed service of sandbox "web" in workspace "default" was changed by somebody else meanwhile: read it and try again`,
				"sandbox": `sandbox "web" in workspace "default" does not exist`,
			}[gone]
			wantError(t, "the update", <-done, want, message)
		})
	}
}

func TestExposeOfWhatIsBeingDeleted(t *testing.T) {
	w := newWorld(t)
	w.create("web")
	w.driver.before = func(string) error { return runtime.ErrClosed }
	_, err := w.call(&deleteReq{Name: "web"})
	wantError(t, "a deletion that fails", err, codes.Unavailable, "the gateway is stopping: try again")
	_, err = w.call(&exposeReq{Sandbox: "web", TargetPort: 80})
	wantError(t, "expose", err, codes.FailedPrecondition, `sandbox "web" in workspace "default" is being deleted`)
}

// What is read is neither written nor asked for.
func TestReadsChangeNothing(t *testing.T) {
	w := newWorld(t)
	id := w.create("web", &exposure{TargetPort: 80}).GetMetadata().GetId()
	agent := w.agent(id, "one")
	agent.report("", health.Observation{State: passed.State, Outcome: passed.Outcome, Reason: passed.Reason, Code: 204})
	before := w.everything()
	mutations := w.count("mutate")
	for range 3 {
		for _, req := range []proto.Message{
			&openshellv1.HealthRequest{}, &openshellv1.GetCurrentUserRequest{}, &openshellv1.GetGatewayInfoRequest{},
			&openshellv1.GetWorkspaceRequest{Name: "default"}, &openshellv1.ListWorkspacesRequest{}, &getReq{Name: "web"}, &listReq{}, &getServiceReq{Sandbox: "web"},
			&listServicesReq{Sandbox: "web"}, &listServicesReq{WorkspaceScope: allWorkspaces()},
		} {
			if _, err := w.call(req); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.unchanged("reading", before)
	if n := w.count("mutate") - mutations; n != 0 {
		t.Errorf("reading took %d transactions that write", n)
	}
}
