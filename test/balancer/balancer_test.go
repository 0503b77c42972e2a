// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package balancer

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const (
	restarts = 20
	// grace is shorter than the default, and so is the interval of HAProxy's
	// checks: it must still see two of them within the grace.
	grace    = 2 * time.Second
	interval = "400ms"
)

// fleet is two gateways and the balancer before them.
type fleet struct {
	t        *testing.T
	dir      string
	beds     [2]*kit.Bed
	gateways [2]*kit.Process
	socket   string // HAProxy's
	api      string // its addresses
	http     string
}

// T26: behind a balancer that polls /readyz, 100 requests a second and 20
// rolling restarts: no failed request.
func TestT26RollingRestarts(t *testing.T) {
	if os.Getenv("TEST_DATABASE_URL") == "" {
		t.Skip("TEST_DATABASE_URL is not set: make e2e-balancer sets it")
	}
	f := newFleet(t)
	f.balance()
	f.cli(0, "sandbox", "create", "web", "--expose", "8080", "--expose-readiness-path", "/readyz")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	loads := []*load{
		f.load(ctx, "HTTP, kept alive", f.get(&http.Transport{MaxIdleConnsPerHost: 10})),
		f.load(ctx, "HTTP, a connection each", f.get(&http.Transport{DisableKeepAlives: true})),
		f.load(ctx, "gRPC", f.getService("web")),
	}
	for i := range restarts {
		f.restart(i % 2)
	}
	stop()
	for _, l := range loads {
		sent, failed := l.wait()
		t.Logf("%s: %d requests, %d failed", l.name, sent, len(failed))
		if sent < restarts*20 {
			t.Errorf("%s: only %d requests were sent", l.name, sent)
		}
		for _, err := range failed {
			t.Errorf("%s: %v", l.name, err)
		}
	}
}

func newFleet(t *testing.T) *fleet {
	t.Setenv("SANDBOX_GATEWAY_DATABASE_URL", os.Getenv("TEST_DATABASE_URL"))
	f := &fleet{t: t, dir: t.TempDir()}
	for i, name := range []string{"a", "b"} {
		log, err := os.Create(filepath.Join(f.dir, name+".log"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			log.Close()
			if b, _ := os.ReadFile(log.Name()); t.Failed() {
				t.Logf("gateway %s:\n%s", name, b)
			}
		})
		dir := filepath.Join(f.dir, name)
		if f.beds[i], err = kit.New(dir, log); err != nil {
			t.Fatal(err)
		}
		if i == 1 { // replicas are one gateway to their clients
			for _, file := range []string{"ca.crt", "ca.key", "admin.token", "sandbox-tokens.key"} {
				f.copy(file)
			}
		}
		f.start(i)
		t.Cleanup(func() { f.gateways[i].Stop() })
	}
	return f
}

func (f *fleet) copy(name string) {
	b, err := os.ReadFile(filepath.Join(f.beds[0].State, name))
	if err == nil {
		err = os.WriteFile(filepath.Join(f.beds[1].State, name), b, 0o600)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) start(i int) {
	f.t.Helper()
	p, err := f.beds[i].Gateway(f.t.Context(), "--drain-grace", grace.String())
	if err != nil {
		f.t.Fatal(err)
	}
	f.gateways[i] = p
}

// balance starts HAProxy.
func (f *fleet) balance() {
	f.socket = filepath.Join(f.dir, "haproxy.sock")
	f.api, f.http = free(f.t), free(f.t)
	env := append(os.Environ(), "HAPROXY_SOCKET="+f.socket, "CHECK_INTERVAL="+interval,
		"API_BIND="+f.api, "HTTP_BIND="+f.http, "SUPERVISOR_BIND="+free(f.t))
	for i, name := range []string{"A", "B"} {
		c, err := f.beds[i].Client()
		if err != nil {
			f.t.Fatal(err)
		}
		plain := strings.TrimPrefix(c.HTTP, "http://")
		host, port, err := net.SplitHostPort(plain)
		if err != nil {
			f.t.Fatal(err)
		}
		env = append(env, name+"_HTTP="+plain, name+"_CHECK_HOST="+host, name+"_CHECK_PORT="+port,
			name+"_API="+strings.TrimPrefix(c.API, "https://"), name+"_SUPERVISOR="+strings.TrimPrefix(c.Supervisor, "https://"))
	}
	path := "/usr/sbin/haproxy"
	cmd := exec.Command(path, "-db", "-f", filepath.Join(kit.Root(), "packaging", "loadbalancer", "haproxy.cfg"))
	cmd.Env = env
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		f.t.Fatalf("%s: %v (make setup installs it)", path, err)
	}
	f.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if f.t.Failed() {
			f.t.Logf("haproxy:\n%s", log.String())
		}
	})
	f.untilUp(0)
	f.untilUp(1)
}

// free returns an address of loopback that nobody listens on now.
func free(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// restart stops one gateway, starts it again, and waits until the balancer
// uses it, as whoever rolls a fleet does.
func (f *fleet) restart(i int) {
	f.t.Helper()
	if code, err := f.gateways[i].Stop(); code != 0 || err != nil {
		f.t.Fatalf("gateway %d stopped with %d, %v", i, code, err)
	}
	f.start(i)
	f.untilUp(i)
}

// untilUp waits until HAProxy uses a gateway in every backend.
func (f *fleet) untilUp(i int) {
	f.t.Helper()
	server := string(rune('a' + i))
	err := kit.Until(f.t.Context(), 20*time.Second, "HAProxy to use gateway "+server, func() (bool, string) {
		up, err := f.up(server)
		if err != nil {
			return false, err.Error()
		}
		return up == 3, fmt.Sprintf("up in %d of 3 backends", up)
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

// up counts the backends in which a server is up, by HAProxy's statistics.
func (f *fleet) up(server string) (int, error) {
	conn, err := net.Dial("unix", f.socket)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "show stat -1 4 -1\n"); err != nil {
		return 0, err
	}
	r := csv.NewReader(conn)
	r.FieldsPerRecord = -1
	rows, err := r.ReadAll()
	if err != nil {
		return 0, err
	}
	n := 0
	for _, row := range rows {
		if len(row) > 17 && row[1] == server && row[17] == "UP" {
			n++
		}
	}
	return n, nil
}

func (f *fleet) cli(i int, args ...string) {
	f.t.Helper()
	if r := f.beds[i].CLI(f.t.Context(), args...); r.Code != 0 {
		f.t.Fatalf("sandboxctl %s: %s", strings.Join(args, " "), r.Stderr)
	}
}

// get returns a request through the balancer's HTTP frontend.
func (f *fleet) get(transport *http.Transport) func(context.Context) error {
	f.t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.http+"/livez", nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		return nil
	}
}

// getService returns a request through the balancer's API frontend.
func (f *fleet) getService(name string) func(context.Context) error {
	options, err := sandbox.FromStateDir(f.beds[0].State)
	if err != nil {
		f.t.Fatal(err)
	}
	options.Address = "https://" + f.api // all of them have one authority and one token
	client, err := sandbox.Dial(f.t.Context(), options)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { client.Close() })
	return func(ctx context.Context) error {
		_, err := client.GetService(ctx, &openshellv1.GetServiceRequest{Sandbox: name})
		return err
	}
}
