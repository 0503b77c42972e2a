// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

// stage is a real gateway, and a client of the test's own.
type stage struct {
	*kit.Bed
	own     *sandbox.Client
	env     []string // tells a driver where the gateway is
	gateway *kit.Process
}

func newStage(t *testing.T) *stage {
	t.Helper()
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	bed, err := kit.New(dir, log)
	if err != nil {
		t.Skipf("%v", err)
	}
	gateway, err := bed.Gateway(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{Bed: bed, gateway: gateway}
	t.Cleanup(func() {
		if code, err := s.gateway.Stop(); code != 0 || err != nil {
			t.Errorf("the gateway ended with %d, %v", code, err)
		}
		s.complain(t, log)
	})
	at, err := bed.Client()
	if err != nil {
		t.Fatal(err)
	}
	tokenFile, caFile := filepath.Join(bed.State, "admin.token"), filepath.Join(bed.State, "ca.crt")
	s.env = append(os.Environ(), "SANDBOX_GATEWAY_STATE_DIR="+bed.State, "SANDBOX_GATEWAY="+at.API, "SANDBOX_TOKEN_FILE="+tokenFile, "SANDBOX_CA_FILE="+caFile)
	options, err := sandbox.FromStateDir(bed.State)
	if err != nil {
		t.Fatal(err)
	}
	s.own, err = sandbox.Dial(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.own.Close() })
	return s
}

// complain shows the processes' log of a test that failed, and fails it if a
// gateway or an agent has logged an error.
func (s *stage) complain(t *testing.T, log *os.File) {
	log.Close()
	content, err := os.ReadFile(log.Name())
	if err != nil {
		t.Error(err)
	}
	if strings.Contains(string(content), "level=ERROR") {
		t.Error("an error was logged")
	}
	if t.Failed() {
		t.Logf("%s", content[max(len(content)-16<<10, 0):])
	}
}

// world is what surrounds one case: an application on a port, and an agent.
type world struct {
	*stage
	sandbox string
	port    int
	agent   *kit.Process

	mu     sync.Mutex
	script []int
	server *http.Server
	done   chan struct{}
}

func newWorld(t *testing.T, s *stage, sandbox string) *world {
	t.Helper()
	w := &world{stage: s, sandbox: sandbox}
	// The port stays free between here and its first use as far as the kernel
	// goes through the others first.
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.port = l.Addr().(*net.TCPAddr).Port
	l.Close()
	t.Cleanup(func() {
		s.gateway.Signal(syscall.SIGCONT)
		w.refuse()
		w.killAgent()
		for _, scope := range []string{"", "team-a"} {
			ctx := context.WithoutCancel(t.Context())
			if _, err := s.own.DeleteSandbox(ctx, &openshellv1.DeleteSandboxRequest{Name: sandbox, AllowMissing: true, WorkspaceScope: sandboxScope(scope)}); err != nil {
				t.Errorf("clean up: %v", err)
			}
		}
	})
	return w
}

// change is a step that is not the client's.
func (w *world) change(ctx context.Context, s step) error {
	switch s.World {
	case "serve":
		return w.serve(s.Script)
	case "refuse":
		w.refuse()
		return nil
	case "agent":
		return w.startAgent(ctx)
	case "kill_agent":
		w.killAgent()
		return nil
	case "freeze":
		return w.gateway.Signal(syscall.SIGSTOP)
	case "thaw":
		return w.gateway.Signal(syscall.SIGCONT)
	case "restart":
		w.gateway.Kill()
		gateway, err := w.Gateway(ctx)
		if err == nil {
			w.stage.gateway = gateway
		}
		return err
	case "fill":
		for i := range s.Count {
			r := &openshellv1.ExposeServiceRequest{Sandbox: w.sandbox, Name: fmt.Sprintf("s%d", i), TargetPort: uint32(1000 + i)}
			if _, err := w.own.ExposeService(ctx, r); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("the world has no %q", s.World)
}

func (w *world) serve(script []int) error {
	if len(script) == 0 {
		return errors.New("serve: no script")
	}
	w.mu.Lock()
	w.script = script
	w.mu.Unlock()
	if w.server != nil {
		return nil
	}
	l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", w.port))
	if err != nil {
		return err
	}
	server, done := &http.Server{Handler: w, ReadHeaderTimeout: time.Minute}, make(chan struct{})
	w.server, w.done = server, done
	go func() { defer close(done); server.Serve(l) }()
	return nil
}

// ServeHTTP answers with the next status of the script, the last one for ever.
func (w *world) ServeHTTP(out http.ResponseWriter, _ *http.Request) {
	w.mu.Lock()
	status := w.script[0]
	if len(w.script) > 1 {
		w.script = w.script[1:]
	}
	w.mu.Unlock()
	out.WriteHeader(status)
}

func (w *world) refuse() {
	if w.server == nil {
		return
	}
	w.server.Close()
	<-w.done
	w.server = nil
}

func (w *world) startAgent(ctx context.Context) error {
	r, err := w.own.GetSandbox(ctx, &openshellv1.GetSandboxRequest{Name: w.sandbox})
	if err != nil {
		return err
	}
	at, err := w.Client()
	if err != nil {
		return err
	}
	id := r.GetSandbox().GetMetadata().GetId()
	w.agent, err = w.Start("sandbox-agent", "run", "--gateway", at.Supervisor, "--ca-file", filepath.Join(w.State, "ca.crt"), "--sandbox", id,
		"--token-file", filepath.Join(w.State, "sandboxes", id, "token"), "--ops-listen", "127.0.0.1:0")
	return err
}

func (w *world) killAgent() {
	if w.agent != nil && !w.agent.Exited() {
		w.agent.Kill()
	}
}
