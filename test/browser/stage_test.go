// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// stage is a gateway with agents and targets, and what a script may ask of it.
type stage struct {
	t        *testing.T
	dir      string
	bed      *kit.Bed
	log      *os.File
	gateway  *kit.Process
	args     []string // of the gateway
	controls *http.ServeMux
}

func newStage(t *testing.T, args ...string) *stage {
	s := &stage{t: t, args: args, controls: http.NewServeMux()}
	var err error
	if s.dir, err = os.MkdirTemp("", "br"); err != nil { // short: a socket's path has a limit
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(s.dir) })
	if s.log, err = os.Create(filepath.Join(s.dir, "log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.log.Close()
		if b, _ := os.ReadFile(s.log.Name()); t.Failed() {
			t.Logf("%s", b)
		}
	})
	if s.bed, err = kit.New(s.dir, s.log); err != nil {
		t.Fatal(err)
	}
	s.start()
	t.Cleanup(func() {
		s.gateway.Signal(syscall.SIGCONT)
		s.gateway.Stop()
	})
	s.control("{$}", func(*http.Request) {}) // a page of another origin
	s.control("kill", func(*http.Request) { s.gateway.Kill() })
	s.control("start", func(*http.Request) { s.start() })
	s.control("freeze", func(*http.Request) { s.gateway.Signal(syscall.SIGSTOP) })
	s.control("thaw", func(*http.Request) { s.gateway.Signal(syscall.SIGCONT) })
	s.control("sandboxctl", func(r *http.Request) { s.cli(r.URL.Query()["arg"]...) })
	return s
}

func (s *stage) start() {
	var err error
	if s.gateway, err = s.bed.Gateway(s.t.Context(), s.args...); err != nil {
		s.t.Error(err)
	}
}

// control lets the script do something: it fetches CONTROL/name.
func (s *stage) control(name string, f func(*http.Request)) {
	s.controls.HandleFunc("/"+name, func(_ http.ResponseWriter, r *http.Request) { f(r) })
}

func (s *stage) cli(args ...string) {
	s.t.Helper()
	if r := s.bed.CLI(s.t.Context(), args...); r.Code != 0 {
		s.t.Errorf("sandboxctl %s: %s", strings.Join(args, " "), r.Stderr)
	}
}

// agent starts the agent of a sandbox.
func (s *stage) agent(sandbox string) *kit.Process {
	s.t.Helper()
	sb, err := s.bed.Sandbox(s.t.Context(), sandbox)
	if err != nil {
		s.t.Fatal(err)
	}
	client, err := s.bed.Client()
	if err != nil {
		s.t.Fatal(err)
	}
	p, err := s.bed.Start("sandbox-agent", "run", "--gateway", client.Socket, "--ops-listen", "127.0.0.1:0",
		"--token-file", filepath.Join(s.bed.State, "sandboxes", sb.GetSandbox().GetMetadata().GetId(), "token"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { p.Stop() })
	return p
}

// healthy waits until a service is.
func (s *stage) healthy(sandbox, name string) {
	s.t.Helper()
	if err := s.bed.UntilHealth(s.t.Context(), 20*time.Second, sandbox, name, "HEALTHY"); err != nil {
		s.t.Fatal(err)
	}
}

// serve serves a handler on the loopback and returns its port.
func (s *stage) serve(h http.Handler) (port string) {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	srv := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() { defer close(done); srv.Serve(l) }()
	s.t.Cleanup(func() { srv.Close(); <-done })
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port
}

// target is a service that answers what it is told to.
type target struct {
	port string
	code atomic.Int32
}

// target adds one; the script fetches CONTROL/NAME?code=503 to change it.
func (s *stage) target(name string, code int32) *target {
	d := &target{}
	d.code.Store(code)
	d.port = s.serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(d.code.Load()))
		io.WriteString(w, name)
	}))
	s.control(name, func(r *http.Request) {
		code, broken := map[string]int32{"200": 200, "503": 503}[r.URL.Query().Get("code")]
		if !broken {
			s.t.Errorf("target %s: %s", name, r.URL)
		}
		d.code.Store(code)
	})
	return d
}

// run runs a script to its end.
func (s *stage) run(script string, env ...string) {
	s.t.Helper()
	client, err := s.bed.Client()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := node(s.t.Context(), script)
	cmd.Env = append(os.Environ(), "GATEWAY="+client.HTTP, "SCRATCH="+s.dir,
		"CONTROL=http://127.0.0.1:"+s.serve(s.controls))
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	s.t.Logf("%s", out)
	if err != nil {
		s.t.Errorf("%s: %v", script, err)
	}
}

// node is the command that runs a script, and ends it with ctx, with its
// browser.
func node(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "node", "--test", "--test-reporter=spec", "--test-timeout=100000", script)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Dir = filepath.Join(kit.Root(), "test", "browser")
	return cmd
}
