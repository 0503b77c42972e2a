// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

// Two services of the same port in two sandboxes never mix.
func TestSamePortInTwoSandboxes(t *testing.T) {
	b := newBed(t)
	b.gateway()
	// "full" answers at /only-here, "empty" does not.
	for name, file := range map[string]string{"full": "only-here", "empty": "other"} {
		dir := filepath.Join(b.dir, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		b.cli("sandbox", "create", name, "--driver", "local", "--expose", "8080", "--expose-readiness-path", "/only-here",
			"--", "python3", "-m", "http.server", "8080", "--directory", dir)
	}
	b.until(15*time.Second, "full", "", "HEALTHY")
	b.until(20*time.Second, "empty", "", "UNHEALTHY/BadStatus")
	if got := b.health("full", ""); got != "HEALTHY" {
		t.Fatalf("full is %s", got)
	}
	r, err := b.Service(b.ctx, "empty", "")
	if err != nil {
		t.Fatal(err)
	}
	if code := r.GetHealth().GetHttpStatusCode(); code != 404 {
		t.Fatalf("empty answered %d, want 404", code)
	}
}

// A gateway killed with -9 and started again: endpoints kept, health UNKNOWN,
// then right within one session.
func TestGatewayKilled(t *testing.T) {
	b := newBed(t)
	first := b.gateway()
	b.cli("sandbox", "create", "web", "--driver", "local", "--expose", "8080", "--", "python3", "-m", "http.server", "8080")
	b.until(15*time.Second, "web", "", "HEALTHY")
	before, err := b.Service(b.ctx, "web", "")
	if err != nil {
		t.Fatal(err)
	}
	first.Kill()
	b.gateway()
	after, err := b.Service(b.ctx, "web", "")
	if err != nil {
		t.Fatal(err)
	}
	if a, b := after.GetEndpoint().GetMetadata(), before.GetEndpoint().GetMetadata(); a.GetId() != b.GetId() || a.GetResourceVersion() != b.GetResourceVersion() {
		t.Fatalf("the endpoint has changed: %v, was %v", a, b)
	}
	if got := kit.Health(after.GetHealth()); got == "UNHEALTHY" {
		t.Fatalf("a good service reads %s", got)
	}
	// The agent redials within its backoff; from then on it takes one round.
	b.until(20*time.Second, "web", "", "HEALTHY")
}

// An agent killed: SupervisorDisconnected as soon as the connection has
// closed, never a stale value; the sandbox is ERROR with the code.
func TestAgentKilled(t *testing.T) {
	b := newBed(t)
	b.gateway()
	b.cli("sandbox", "create", "web", "--expose", "8080") // external: the agent is ours
	agent := b.agent("web")
	serve(t, "127.0.0.1:8080")
	b.until(10*time.Second, "web", "", "HEALTHY")
	agent.Kill()
	b.until(time.Second, "web", "", "UNKNOWN/SupervisorDisconnected")
	// A new life of the agent: right again within its first round.
	b.agent("web")
	b.until(5*time.Second, "web", "", "HEALTHY")
}

// agent starts an agent for an external sandbox in this network namespace.
func (b *bed) agent(sandbox string, args ...string) *kit.Process {
	b.t.Helper()
	r, err := b.Sandbox(b.ctx, sandbox)
	if err != nil {
		b.t.Fatal(err)
	}
	c, err := b.Client()
	if err != nil {
		b.t.Fatal(err)
	}
	id := r.GetSandbox().GetMetadata().GetId()
	all := append([]string{
		"run", "--gateway", c.Supervisor, "--ca-file", filepath.Join(b.State, "ca.crt"), "--sandbox", id,
		"--token-file", filepath.Join(b.State, "sandboxes", id, "token"), "--ops-listen", "127.0.0.1:0",
	}, args...)
	p, err := b.Start("sandbox-agent", all...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if !p.Exited() {
			p.Kill()
		}
	})
	return p
}

// The main process of a local sandbox ends: ERROR with its code, and Start
// boots it anew.
func TestMainProcessEnds(t *testing.T) {
	b := newBed(t)
	b.gateway()
	flag := filepath.Join(b.dir, "end")
	b.cli("sandbox", "create", "job", "--driver", "local", "--", "sh", "-c", "until [ -e "+flag+" ]; do sleep 0.05; done; exit 7")
	b.phase("job", 10*time.Second, openshellv1.SandboxPhase_SANDBOX_PHASE_READY)
	if err := os.WriteFile(flag, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	sb := b.phase("job", 10*time.Second, openshellv1.SandboxPhase_SANDBOX_PHASE_ERROR)
	if code := sb.GetStatus().ExitCode; code == nil || *code != 7 {
		t.Fatalf("exit code %v, want 7", code)
	}
	if err := os.Remove(flag); err != nil {
		t.Fatal(err)
	}
	b.cli("sandbox", "start", "job")
	again := b.phase("job", 10*time.Second, openshellv1.SandboxPhase_SANDBOX_PHASE_READY)
	if a, b := sb.GetStatus().GetMainProcessInstanceId(), again.GetStatus().GetMainProcessInstanceId(); a == b || b == "" {
		t.Fatalf("instance %q after the restart, %q before", b, a)
	}
}

// phase waits for a sandbox's phase.
func (b *bed) phase(name string, limit time.Duration, want openshellv1.SandboxPhase) *openshellv1.Sandbox {
	b.t.Helper()
	var sb *openshellv1.Sandbox
	err := kit.Until(b.ctx, limit, name+" to be "+want.String(), func() (bool, string) {
		r, err := b.Sandbox(b.ctx, name)
		if err != nil {
			return false, err.Error()
		}
		sb = r.GetSandbox()
		return sb.GetStatus().GetPhase() == want, sb.GetStatus().GetPhase().String()
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return sb
}

// Stop, start and delete of a local sandbox leave no process behind.
func TestStopStartDelete(t *testing.T) {
	b := newBed(t)
	b.gateway()
	marker := "31" + strconv.Itoa(os.Getpid())
	b.cli("sandbox", "create", "web", "--driver", "local", "--expose", "8080", "--", "sh", "-c", "sleep "+marker+" & exec python3 -m http.server 8080")
	b.until(15*time.Second, "web", "", "HEALTHY")
	if n := running(t, "sleep", marker); n != 1 {
		t.Fatalf("%d marked processes, want 1", n)
	}
	b.cli("sandbox", "stop", "web")
	if got := b.health("web", ""); got != "UNKNOWN/SandboxStopped" {
		t.Fatalf("stopped: %s", got)
	}
	if n := running(t, "sleep", marker); n != 0 {
		t.Fatalf("%d marked processes after stop", n)
	}
	b.cli("sandbox", "start", "web")
	b.until(15*time.Second, "web", "", "HEALTHY")
	b.cli("sandbox", "delete", "web")
	if n := running(t, "sleep", marker); n != 0 {
		t.Fatalf("%d marked processes after delete", n)
	}
	if r := b.CLI(b.ctx, "service", "get", "web"); r.Code != 3 {
		t.Fatalf("get after delete: exit %d, want 3 (not found): %s", r.Code, r.Stderr)
	}
	if left, _ := filepath.Glob(filepath.Join(b.State, "sandboxes", "*")); len(left) != 0 {
		t.Fatalf("files left: %v", left)
	}
}

// running counts processes with exactly this command line.
func running(t *testing.T, argv ...string) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range files {
		b, _ := os.ReadFile(f) // of a process that has ended meanwhile
		if string(b) == strings.Join(argv, "\x00")+"\x00" {
			n++
		}
	}
	return n
}

// A changed readiness path: UNKNOWN in the answer itself, then the verdict of
// the new configuration. An omitted one is kept.
func TestReconfigure(t *testing.T) {
	b := newBed(t)
	b.gateway()
	b.cli("sandbox", "create", "web", "--driver", "local", "--expose", "8080", "--", "python3", "-m", "http.server", "8080", "--directory", b.dir)
	b.until(15*time.Second, "web", "", "HEALTHY")
	out := b.cli("service", "expose", "web", "8080", "--readiness-path", "/missing")
	if !strings.Contains(out, "Unknown") {
		t.Fatalf("the answer to the change says:\n%s", out)
	}
	b.until(20*time.Second, "web", "", "UNHEALTHY/BadStatus")
	b.cli("service", "expose", "web", "8080")
	r, err := b.Service(b.ctx, "web", "")
	if err != nil {
		t.Fatal(err)
	}
	if path := r.GetEndpoint().GetReadinessCheck().GetPath(); path != "/missing" || kit.Health(r.GetHealth()) != "UNHEALTHY/BadStatus" {
		t.Fatalf("after an update without check: path %q, %s", path, kit.Health(r.GetHealth()))
	}
}

// A stopped gateway says so with its exit status, also with a session open.
func TestGatewayStops(t *testing.T) {
	b := newBed(t)
	p := b.gateway()
	b.cli("sandbox", "create", "web", "--expose", "8080")
	b.agent("web")
	b.phase("web", 10*time.Second, openshellv1.SandboxPhase_SANDBOX_PHASE_READY)
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	code, _ := p.Stop()
	if code != 0 {
		t.Fatalf("exit status %d after SIGTERM", code)
	}
}
