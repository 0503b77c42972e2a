// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/session"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
	"github.com/sandbox-agent/sandbox-agent/internal/buildinfo"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/probe"
	"github.com/sandbox-agent/sandbox-agent/readiness"
)

func TestHTTPListeners(t *testing.T) {
	r := start(t, testConfig(t))
	r.untilReady()
	for path, want := range map[string]string{
		"/livez": "200 ok", "/readyz": "200 ready", "/healthz": "200 ready",
		"/readyz?verbose": "200 ready", "/metrics": "404", "/debug/pprof/": "404", "/": "200 <!doctype html>",
	} {
		if code, body := get(t, r.file.HTTP+path); !strings.HasPrefix(answer(code, body), want) || strings.Contains(body, "store") {
			t.Errorf("http %s: %s, want %s", path, answer(code, body), want)
		}
	}
	for path, want := range map[string]string{
		"/livez": "200 ok", "/readyz": "200 ready", "/healthz": "200 ready",
		"/readyz?verbose": "200 ready\nstore: ok ", "/debug/pprof/": "200 ", "/metrics": "200 # HELP",
	} {
		if code, body := get(t, r.file.Ops+path); !strings.HasPrefix(answer(code, body), want) {
			t.Errorf("ops %s: %.100s, want %s", path, answer(code, body), want)
		}
	}
}

func answer(code int, body string) string { return fmt.Sprint(code, " ", strings.TrimSpace(body)) }

func TestClientFile(t *testing.T) {
	cfg := testConfig(t)
	r := start(t, cfg)
	l := r.listeners
	want := client{
		API: "https://" + l.grpc.Addr().String(), HTTP: "http://" + l.http.Addr().String(),
		Supervisor: "https://" + l.supervisor.Addr().String(), Socket: "unix:" + filepath.Join(cfg.StateDir, "supervisor", "agent.sock"),
		Ops: "http://" + l.ops.Addr().String(), CAFile: "ca.crt", TokenFile: "admin.token",
	}
	if r.file != want {
		t.Errorf("%+v\nwant %+v", r.file, want)
	}
	for _, u := range []string{r.file.API, r.file.HTTP, r.file.Supervisor, r.file.Ops} {
		if strings.HasSuffix(u, ":0") {
			t.Errorf("%s is not where the gateway listens", u)
		}
	}
}

// What is in the state directory is its owner's; the socket is for agents of
// any user, who have a token.
func TestModes(t *testing.T) {
	r := start(t, testConfig(t))
	if _, err := openshellv1.NewOpenShellClient(r.dial(true)).CreateSandbox(t.Context(), &openshellv1.CreateSandboxRequest{Name: "web"}); err != nil {
		t.Fatal(err)
	}
	files := 0
	err := filepath.WalkDir(r.cfg.StateDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		files++
		want := map[bool]fs.FileMode{true: 0o700, false: 0o600}[d.IsDir()]
		switch filepath.Base(path) {
		case "supervisor":
			want = 0o755
		case "agent.sock":
			want = 0o666
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %04o, want %04o", path, got, want)
		}
		return nil
	})
	if err != nil || files < 12 {
		t.Errorf("%d files, %v", files, err)
	}
}

func TestAPIListener(t *testing.T) {
	r := start(t, testConfig(t))
	r.untilReady()
	open, admin := r.dial(false), r.dial(true)
	names := []string{"", "openshell.v1.OpenShell"}
	health := grpc_health_v1.NewHealthClient(open)
	for _, name := range names {
		if resp, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name}); err != nil || resp.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("health of %q: %v, %v", name, resp, err)
		}
	}
	if _, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "other"}); status.Code(err) != codes.NotFound {
		t.Errorf("health of an unknown service: %v", err)
	}
	list, err := health.List(t.Context(), &grpc_health_v1.HealthListRequest{})
	for _, name := range names {
		if list.GetStatuses()[name].GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("listed %v, %v", list, err)
		}
	}
	if resp, err := openshellv1.NewOpenShellClient(open).Health(t.Context(), &openshellv1.HealthRequest{}); err != nil ||
		resp.GetStatus() != openshellv1.ServiceStatus_SERVICE_STATUS_HEALTHY || resp.GetVersion() != buildinfo.Version {
		t.Errorf("Health: %v, %v", resp, err)
	}
	if _, err := openshellv1.NewOpenShellClient(open).ListSandboxes(t.Context(), &openshellv1.ListSandboxesRequest{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without token: %v", err)
	}
	if _, err := openshellv1.NewOpenShellClient(admin).ListSandboxes(t.Context(), &openshellv1.ListSandboxesRequest{}); err != nil {
		t.Errorf("with token: %v", err)
	}
	stream, err := grpc_reflection_v1.NewServerReflectionClient(admin).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	resp, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var services []string
	for _, s := range resp.GetListServicesResponse().GetService() {
		services = append(services, s.GetName())
	}
	for _, want := range []string{"openshell.v1.OpenShell", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"} {
		if !slices.Contains(services, want) {
			t.Errorf("reflection lists %q, not %s", services, want)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
}

// grpc.health.v1 says what /readyz says.
func TestGRPCHealthIsAsDeepAsReadiness(t *testing.T) {
	broken := make(chan bool, 1)
	c := readiness.New(testkit.Logger(t), readiness.Check{Name: "store", Func: func(context.Context) error {
		if <-broken {
			return errors.New("gone")
		}
		return nil
	}})
	h := newGRPCHealth(c, "a.Service")
	want := func(when string, status grpc_health_v1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		list, err := h.List(t.Context(), &grpc_health_v1.HealthListRequest{})
		if err != nil || len(list.GetStatuses()) != 2 {
			t.Errorf("%s: %v, %v", when, list, err)
		}
		for _, name := range []string{"", "a.Service"} {
			resp, err := h.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name})
			if err != nil || resp.GetStatus() != status || list.GetStatuses()[name].GetStatus() != status {
				t.Errorf("%s: %q is %v, %v", when, name, resp.GetStatus(), err)
			}
		}
	}
	want("before the first check", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	broken <- false
	eventually(t, "ready", c.Ready)
	want("after a pass", grpc_health_v1.HealthCheckResponse_SERVING)
	c.Drain()
	want("draining", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestMetrics(t *testing.T) {
	r := start(t, testConfig(t))
	r.untilReady()
	api := openshellv1.NewOpenShellClient(r.dial(true))
	if _, err := api.CreateSandbox(t.Context(), &openshellv1.CreateSandboxRequest{Name: "web"}); err != nil {
		t.Fatal(err)
	}
	r.handshake()
	problems, err := testutil.GatherAndLint(r.registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	_, body := get(t, r.file.Ops+"/metrics")
	for _, want := range []string{
		"sandbox_gateway_ready 1", "sandbox_gateway_sessions 0", `sandbox_gateway_handshakes_total{result="upgrade_required"} 1`,
		`sandbox_gateway_store_duration_seconds_count{op="mutate",result="ok"}`, "sandbox_gateway_build_info{version=", "process_open_fds", "go_goroutines",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	if strings.Contains(body, `"web"`) {
		t.Error("the name of a sandbox is in a label")
	}
}

// External sandboxes say how to start their agent.
func TestHint(t *testing.T) {
	r := start(t, testConfig(t))
	api := openshellv1.NewOpenShellClient(r.dial(true))
	resp, err := api.CreateSandbox(t.Context(), &openshellv1.CreateSandboxRequest{Name: "web", ServiceExposures: []*openshellv1.SandboxServiceExposure{{TargetPort: 80}}})
	if err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(r.cfg.StateDir, "sandboxes", resp.GetSandbox().GetMetadata().GetId(), "token")
	want := "boot the sandbox with: sandbox-agent run --gateway " + r.file.Supervisor + " --token-file " + token +
		" --ca-file " + filepath.Join(r.cfg.StateDir, "ca.crt") + " (hand both files over; on this host --gateway " + r.file.Socket + " needs no CA)"
	conditions := resp.GetSandbox().GetStatus().GetConditions()
	if len(conditions) != 2 || conditions[1].GetMessage() != want {
		t.Errorf("%v\nwant %s", conditions, want)
	}
	if _, err := os.Stat(token); err != nil {
		t.Error(err)
	}
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(r.file.HTTP, "http://"))
	if got := resp.GetServiceUrls()[""]; got != "http://default--web.sandbox.localhost:"+port+"/" {
		t.Errorf("url %s", got)
	}
	if r.hint(store.Sandbox{Driver: "local"}) != "" {
		t.Error("a local sandbox has a hint")
	}
}

// Neither logs nor what is served over HTTP hold a credential.
func TestSecretsStaySecret(t *testing.T) {
	r := start(t, testConfig(t))
	api := openshellv1.NewOpenShellClient(r.dial(true))
	resp, err := api.CreateSandbox(t.Context(), &openshellv1.CreateSandboxRequest{Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	secrets := r.secrets()
	token, err := os.ReadFile(filepath.Join(r.cfg.StateDir, "sandboxes", resp.GetSandbox().GetMetadata().GetId(), "token"))
	if err != nil {
		t.Fatal(err)
	}
	secrets["sandbox token"] = strings.TrimSpace(string(token))
	outputs := map[string]string{"the answer": resp.String()}
	for _, path := range []string{"/metrics", "/readyz?verbose", "/debug/pprof/", "/debug/pprof/cmdline"} {
		_, outputs[path] = get(t, r.file.Ops+path)
	}
	b, err := os.ReadFile(filepath.Join(r.cfg.StateDir, ClientFile))
	if err != nil {
		t.Fatal(err)
	}
	outputs[ClientFile] = string(b)
	r.stop()
	outputs["the log"] = r.logged.String()
	for name, secret := range secrets {
		for where, text := range outputs {
			if len(secret) < 16 || strings.Contains(text, secret) {
				t.Errorf("%s is in %s", name, where)
			}
		}
	}
	if !strings.Contains(outputs["the log"], "draining") {
		t.Errorf("logged %q", outputs["the log"])
	}
}

func TestDirectory(t *testing.T) {
	// Not running: its recovery would finish what is stored here as begun.
	r, err := New(t.Context(), testConfig(t), testkit.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	d := directory{r.store, r.lifecycle}
	ctx := t.Context()
	if _, err := d.Sandbox(ctx, "none"); err != session.ErrNoSandbox {
		t.Errorf("no sandbox: %v", err)
	}
	if err := d.Connected(ctx, "none", 1, "a"); err != session.ErrNoSandbox {
		t.Errorf("a session of no sandbox: %v", err)
	}
	ids := make(map[store.Lifecycle]string)
	if _, _, err := r.store.Mutate(ctx, store.Request{}, func(tx store.Tx) ([]byte, error) {
		for _, l := range []store.Lifecycle{store.Creating, store.Running, store.Starting, store.Stopping, store.Stopped, store.Deleting} {
			s, err := tx.InsertSandbox(store.Sandbox{Workspace: "w", Name: string(l), Driver: "external", Lifecycle: l, Generation: 3})
			if err != nil {
				return nil, err
			}
			ids[l] = s.ID
		}
		_, err := tx.InsertService(store.Service{SandboxID: ids[store.Running], Name: "api", Port: 80, HasCheck: true, Path: "/r"})
		return nil, err
	}); err != nil {
		t.Fatal(err)
	}
	for l, id := range ids {
		admitted := l == store.Creating || l == store.Running || l == store.Starting
		if s, err := d.Sandbox(ctx, id); err != nil || s != (session.Sandbox{Generation: 3, Admitted: admitted}) {
			t.Errorf("%s: %+v, %v", l, s, err)
		}
		if err := d.Connected(ctx, id, 3, "a"); (err == nil) != admitted || err != nil && err != session.ErrNoSandbox {
			t.Errorf("a session of one that is %s: %v", l, err)
		}
		if err := d.Connected(ctx, id, 2, "a"); err != session.ErrNoSandbox {
			t.Errorf("a session of an earlier generation: %v", err)
		}
	}
	list, err := d.Services(ctx, ids[store.Running])
	if err != nil || len(list) != 1 || list[0].ID == "" || list[0].Revision == 0 || list[0].Name != "api" || list[0].Target != (probe.Target{Port: 80, Path: "/r"}) {
		t.Errorf("services %+v, %v", list, err)
	}
	if err := d.Exited(ctx, ids[store.Running], 3, 7); err != nil {
		t.Error(err)
	}
	if s, err := r.store.SandboxByID(ctx, ids[store.Running]); err != nil || s.ExitCode == nil || *s.ExitCode != 7 {
		t.Errorf("%+v, %v", s, err)
	}
	if len(slices.Collect(maps.Keys(ids))) != 6 {
		t.Error("lifecycles are missing")
	}
}
