// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
	"github.com/sandbox-agent/sandbox-agent/internal/secret"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

// One directory is one gateway's, also where its database is elsewhere.
func TestSecondGatewayIsRefused(t *testing.T) {
	cfg := testConfig(t)
	first := start(t, cfg)
	first.untilReady()
	before := first.file
	for name, edit := range map[string]func(*Config){
		"the same":                        func(*Config) {},
		"with its database elsewhere":     func(c *Config) { c.DatabaseURL = secret.New("postgres://127.0.0.1:1/none") },
		"with a socket of its own, twice": func(c *Config) { c.SupervisorSocket = filepath.Join(c.StateDir, "other", "s") },
	} {
		second := cfg
		edit(&second)
		g, err := New(context.Background(), second, testkit.Logger(t))
		if !errors.Is(err, store.ErrInUse) || !strings.Contains(err.Error(), "state directory is in use by another gateway: "+cfg.StateDir+"/gateway.lock is locked") &&
			!strings.Contains(err.Error(), cfg.StateDir+"/gateway.lock: state directory is in use by another gateway") {
			t.Errorf("%s: %v, %v", name, g, err)
		}
	}
	if code, _ := get(t, first.file.HTTP+"/readyz"); code != http.StatusOK {
		t.Errorf("the first answers %d", code)
	}
	if resp := first.handshake(); resp.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("the socket of the first answers %d", resp.StatusCode)
	}
	if _, err := openshellv1.NewOpenShellClient(first.dial(true)).ListSandboxes(t.Context(), &openshellv1.ListSandboxesRequest{}); err != nil {
		t.Errorf("the API of the first: %v", err)
	}
	first.stop()
	again := start(t, cfg)
	if again.file.Socket != before.Socket || again.file == before {
		t.Errorf("a successor has %+v, the first had %+v", again.file, before)
	}
}

// Of two that begin together on a fresh directory one wins, and the credentials
// are of one piece.
func TestTwoGatewaysAtOnce(t *testing.T) {
	cfg := testConfig(t)
	type result struct {
		g   *Gateway
		err error
	}
	results := make(chan result, 2)
	for range 2 {
		go func() {
			g, err := New(context.Background(), cfg, testkit.Logger(t))
			results <- result{g, err}
		}()
	}
	a, b := <-results, <-results
	if a.err != nil {
		a, b = b, a
	}
	if a.err != nil || !errors.Is(b.err, store.ErrInUse) {
		t.Fatalf("%v and %v", a.err, b.err)
	}
	a.g.Close()
	start(t, cfg).untilReady()
}

func TestDrain(t *testing.T) {
	cfg := testConfig(t)
	cfg.DrainGrace = 10 * time.Minute // the cut ends it
	r := start(t, cfg)
	r.untilReady()
	conn := r.dial(true)
	api, health := openshellv1.NewOpenShellClient(conn), grpc_health_v1.NewHealthClient(conn)
	if _, err := api.CreateSandbox(t.Context(), &openshellv1.CreateSandboxRequest{Name: "web"}); err != nil {
		t.Fatal(err)
	}
	r.cancel()
	<-r.stopping
	for _, url := range []string{r.file.HTTP, r.file.Ops} {
		if code, body := get(t, url+"/readyz"); code != http.StatusServiceUnavailable || body != "not ready" {
			t.Errorf("%s/readyz: %d %q", url, code, body)
		}
		if code, _ := get(t, url+"/livez"); code != http.StatusOK {
			t.Errorf("%s/livez: %d", url, code)
		}
	}
	if _, body := get(t, r.file.Ops+"/readyz?verbose"); !strings.HasPrefix(body, "not ready\ndraining\nstore: ok ") {
		t.Errorf("verbose: %q", body)
	}
	if resp, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil || resp.GetStatus() != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("gRPC health: %v, %v", resp, err)
	}
	if resp, err := api.Health(t.Context(), &openshellv1.HealthRequest{}); err != nil || resp.GetStatus() != openshellv1.ServiceStatus_SERVICE_STATUS_UNHEALTHY {
		t.Errorf("Health: %v, %v", resp, err)
	}
	// Everything else is served on, to newcomers too.
	for name, c := range map[string]openshellv1.OpenShellClient{"known": api, "new": openshellv1.NewOpenShellClient(r.dial(true))} {
		if _, err := c.ExposeService(t.Context(), &openshellv1.ExposeServiceRequest{Sandbox: "web", Name: name, TargetPort: 80}); err != nil {
			t.Errorf("a %s client: %v", name, err)
		}
	}
	if resp := r.handshake(); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "5" {
		t.Errorf("a handshake: %v", resp)
	}
	select {
	case err := <-r.done:
		t.Fatalf("it ended within the grace: %v", err)
	default:
	}
	close(r.cut)
	r.wait()
	for name, addr := range map[string]string{"grpc": r.file.API, "http": r.file.HTTP, "supervisor": r.file.Supervisor, "ops": r.file.Ops} {
		_, hostport, _ := strings.Cut(addr, "://")
		if c, err := net.Dial("tcp", hostport); err == nil {
			c.Close()
			t.Errorf("%s still listens", name)
		}
	}
	if _, err := os.Lstat(strings.TrimPrefix(r.file.Socket, "unix:")); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}

func TestGraceEndsByItself(t *testing.T) {
	cfg := testConfig(t)
	cfg.DrainGrace = 100 * time.Millisecond
	r := start(t, cfg)
	began := time.Now()
	r.stop()
	if took := time.Since(began); took < cfg.DrainGrace {
		t.Errorf("it ended after %v, before its grace", took)
	}
}

// T25: a call that never ends does not hold the stop beyond its bound, and the
// end is no failure.
func TestT25HangingStream(t *testing.T) {
	cfg := testConfig(t)
	r := start(t, cfg, func(g *Gateway) { g.stopTimeout = 100 * time.Millisecond })
	stream, err := grpc_reflection_v1.NewServerReflectionClient(r.dial(true)).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	r.stop()
	if took := time.Since(began); took < 100*time.Millisecond || took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if _, err := stream.Recv(); err == nil {
		t.Error("the stream goes on")
	}
}

type brokenListener struct{ net.Listener }

var errBroken = errors.New("no more descriptors")

func (brokenListener) Accept() (net.Conn, error) { return nil, errBroken }

// A listener that fails ends the gateway with an error, without a grace.
func TestBrokenListener(t *testing.T) {
	cfg := testConfig(t)
	cfg.DrainGrace = 10 * time.Minute
	g, err := New(context.Background(), cfg, testkit.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	g.listeners.http = brokenListener{g.listeners.http}
	if err := g.Run(context.Background(), Hooks{}); !errors.Is(err, errBroken) || !strings.HasPrefix(err.Error(), "http: ") {
		t.Errorf("error %v", err)
	}
}

func TestNewLeavesNothingBehindWhenItFails(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	cfg := testConfig(t)
	bad := cfg
	bad.OpsListen = taken.Addr().String()
	if _, err := New(context.Background(), bad, testkit.Logger(t)); !errors.Is(err, syscall.EADDRINUSE) || !strings.HasPrefix(err.Error(), "ops-listen: ") {
		t.Errorf("a port that is taken: %v", err)
	}
	bad = cfg
	bad.Driver = "docker"
	if _, err := New(context.Background(), bad, testkit.Logger(t)); err == nil || err.Error() != `driver: "docker" is not one of external, local` {
		t.Errorf("a bad configuration: %v", err)
	}
	start(t, cfg).untilReady()
}

// Only what a dead process has left is removed.
func TestSocketPath(t *testing.T) {
	at := func(name string) string {
		dir := filepath.Join(filepath.Dir(testConfig(t).StateDir), "run")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	file := at("file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listenSocket(file); err == nil || err.Error() != file+" exists and is not a socket" {
		t.Errorf("a file: %v", err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "precious" {
		t.Errorf("the file holds %q, %v", b, err)
	}

	live := at("live")
	l, err := listenSocket(live)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listenSocket(live); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a socket that somebody listens on: %v", err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	l, err = listenSocket(live) // as after kill -9
	if err != nil {
		t.Fatalf("a remnant: %v", err)
	}
	l.Close()
}

func TestStoreReady(t *testing.T) {
	cfg := testConfig(t)
	r := start(t, cfg)
	if err := r.storeReady(t.Context()); err != nil {
		t.Errorf("the store serves: %v", err)
	}
	// T27: busy is not down.
	if _, _, err := r.store.Mutate(t.Context(), store.Request{}, func(store.Tx) ([]byte, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := r.storeReady(ctx); err != nil {
			t.Errorf("the store is busy: %v", err)
		}
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(cfg.StateDir, "gateway.db")
	if err := os.Rename(db, db+".away"); err != nil {
		t.Fatal(err)
	}
	if err := r.storeReady(t.Context()); !errors.Is(err, store.ErrReplaced) {
		t.Errorf("the store is gone: %v", err)
	}
	if err := os.Rename(db+".away", db); err != nil {
		t.Fatal(err)
	}
}

// What a gateway has begun its successor finishes, and what it stored is there.
func TestSuccessor(t *testing.T) {
	cfg := testConfig(t)
	first := start(t, cfg)
	api := openshellv1.NewOpenShellClient(first.dial(true))
	var ids []string
	for _, name := range []string{"kept", "leaving"} {
		resp, err := api.CreateSandbox(t.Context(), &openshellv1.CreateSandboxRequest{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, resp.GetSandbox().GetMetadata().GetId())
	}
	if _, _, err := first.store.Mutate(t.Context(), store.Request{}, func(tx store.Tx) ([]byte, error) {
		s, err := tx.SandboxByID(ids[1])
		if err != nil {
			return nil, err
		}
		s.Lifecycle = store.Deleting
		_, err = tx.UpdateSandbox(s)
		return nil, err
	}); err != nil {
		t.Fatal(err)
	}
	credentials := first.secrets()
	first.stop()
	second := start(t, cfg)
	api = openshellv1.NewOpenShellClient(second.dial(true))
	eventually(t, "finished", func() bool {
		resp, err := api.ListSandboxes(t.Context(), &openshellv1.ListSandboxesRequest{})
		return err == nil && len(resp.GetSandboxes()) == 1 && resp.GetSandboxes()[0].GetMetadata().GetId() == ids[0]
	})
	if !reflect.DeepEqual(second.secrets(), credentials) {
		t.Error("the credentials have changed")
	}
	if _, err := os.Stat(filepath.Join(cfg.StateDir, "sandboxes", ids[1])); !os.IsNotExist(err) {
		t.Errorf("files of a deleted sandbox: %v", err)
	}
}
