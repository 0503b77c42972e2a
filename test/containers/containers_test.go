// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

func TestContainers(t *testing.T) {
	e := newEngine(t)
	e.sandbox()
	t.Run("without root", e.withoutRoot)
	t.Run("process 1 reaps", e.reaps)
	t.Run("process 1 ends as its command", e.endsAsItsCommand)
	t.Run("gateway and sandbox", e.gatewayAndSandbox)
}

// on returns an engine whose failures are those of a subtest.
func (e *engine) on(t *testing.T) *engine {
	c := *e
	c.t = t
	return &c
}

func (e *engine) withoutRoot(t *testing.T) {
	e = e.on(t)
	for _, image := range []string{"localhost/sandbox-agent", "localhost/sandbox-gateway"} {
		if user := e.podman("image", "inspect", "--format", "{{.User}}", image); user != "65532:65532" {
			t.Errorf("%s runs as %q", image, user)
		}
		if out := e.podman("run", "--rm", "--read-only", "--cap-drop=all", "--security-opt=no-new-privileges", "--network=none", image, "version"); out == "" {
			t.Errorf("%s tells no version", image)
		}
	}
	// The agent's own image runs with nothing at all.
	e.podman("run", "--detach", "--name=alone", "--read-only", "--cap-drop=all", "--network=none", "localhost/sandbox-agent")
	e.until(10*time.Second, "the agent to answer", func() (bool, string) {
		out, err := e.try("exec", "alone", "/usr/bin/sandbox-agent", "status")
		return err == nil && strings.Contains(out, "ready"), out
	})
	e.podman("stop", "--time=10", "alone")
	if status := e.exited("alone"); status != "0" {
		t.Errorf("after SIGTERM the status is %s\n%s", status, e.podman("logs", "alone"))
	}
}

// reaps leaves orphans behind: the agent takes their statuses, and ends with 0
// when it is told to.
func (e *engine) reaps(t *testing.T) {
	e = e.on(t)
	const orphans = `
		for i in 1 2 3 4 5 6 7 8 9 10; do
			busybox sh -c '(busybox sleep 0.1; exit 3) & (busybox sleep 0.2) & exit 0'
		done
		busybox touch /tmp/left
		exec busybox sleep 600`
	e.podman("run", "--detach", "--name=reaper", "--network=none", "--tmpfs=/tmp:mode=1777", "--env=PATH=/bin", "localhost/sandbox", "--", "busybox", "sh", "-c", orphans)
	// The kernel's own list: process, name, state, parent.
	const processes = `[ -e /tmp/left ] && for s in /proc/[0-9]*/stat; do busybox awk '{ print $1, $2, $3, $4 }' "$s" 2>/dev/null; done`
	e.until(20*time.Second, "the orphans to be gone", func() (bool, string) {
		out, err := e.try("exec", "reaper", "busybox", "sh", "-c", processes)
		if err != nil {
			return false, err.Error()
		}
		children := 0
		for line := range strings.Lines(out) {
			fields := strings.Fields(line)
			if len(fields) == 4 && fields[3] == "1" { // those of process 1
				children++
			}
			if len(fields) == 4 && fields[2] == "Z" {
				return false, out
			}
		}
		return children == 1, out // the sleep of ten minutes
	})
	began := time.Now()
	e.podman("stop", "--time=15", "reaper")
	if status := e.exited("reaper"); status != "0" {
		t.Errorf("after SIGTERM the status is %s\n%s", status, e.podman("logs", "reaper"))
	}
	t.Logf("stopped after %v", time.Since(began))
}

func (e *engine) endsAsItsCommand(t *testing.T) {
	e = e.on(t)
	for name, tc := range map[string]struct {
		command []string
		status  string
	}{
		"exit":    {[]string{"/bin/busybox", "sh", "-c", "exit 7"}, "7"},
		"signal":  {[]string{"/bin/busybox", "sh", "-c", "kill -USR1 $$"}, "138"},
		"missing": {[]string{"/bin/nothing"}, "127"},
	} {
		e.podman(append([]string{"run", "--detach", "--name=" + name, "--network=none", "localhost/sandbox", "--"}, tc.command...)...)
		if status := e.exited(name); status != tc.status {
			t.Errorf("%s: status %s, want %s\n%s", name, status, tc.status, e.podman("logs", name))
		}
	}
}

// gatewayAndSandbox puts the images together as an operator does.
func (e *engine) gatewayAndSandbox(t *testing.T) {
	e = e.on(t)
	const addr = "10.89.77.2"
	e.podman("network", "create", "--subnet=10.89.77.0/24", "--disable-dns", "sandboxes")
	e.podman("run", "--detach", "--name=gateway", "--network=sandboxes", "--ip="+addr, "--volume=state:/var/lib/sandbox-gateway",
		"--env=SANDBOX_GATEWAY_TLS_NAMES="+addr, "--env=SANDBOX_GATEWAY_DRAIN_GRACE=1s", "localhost/sandbox-gateway")
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := e.try("logs", "gateway")
			t.Logf("the gateway's log:\n%s", out)
		}
	})
	state := e.podman("volume", "inspect", "--format", "{{.Mountpoint}}", "state")
	cli := func(args ...string) (string, error) {
		out, err := e.command(filepath.Join(e.bin, "sandboxctl"), append(args, "--gateway", "https://"+addr+":17670",
			"--token-file", filepath.Join(state, "admin.token"), "--ca-file", filepath.Join(state, "ca.crt"))...).CombinedOutput()
		return string(out), err
	}
	e.until(20*time.Second, "the gateway to serve", func() (bool, string) {
		out, err := cli("gateway", "status")
		return err == nil && strings.Contains(out, "Healthy"), out
	})
	e.podman(append([]string{"run", "--detach", "--name=web", "--network=sandboxes", "--volume=" + e.handOver(state, cli) + ":/run/sandbox:ro", "localhost/sandbox"},
		"--gateway", "https://"+addr+":17690", "--token-file", "/run/sandbox/token", "--ca-file", "/run/sandbox/ca.crt",
		"--", "/bin/busybox", "httpd", "-f", "-p", "127.0.0.1:8080", "-h", "/srv")...)
	health := func(limit time.Duration, want string) {
		t.Helper()
		e.until(limit, "the service to be "+want, func() (bool, string) {
			out, err := cli("service", "get", "web", "-o", "json")
			var s openshellv1.ServiceEndpointResponse
			if err != nil || protojson.Unmarshal([]byte(out), &s) != nil {
				return false, out
			}
			got := kit.Health(s.GetHealth())
			return got == want, got
		})
	}
	health(20*time.Second, "HEALTHY")
	e.podman("stop", "--time=15", "web")
	if status := e.exited("web"); status != "0" {
		t.Errorf("after SIGTERM the sandbox's status is %s", status)
	}
	health(time.Second, "UNKNOWN/SupervisorDisconnected")
	e.podman("stop", "--time=70", "gateway")
	if status := e.exited("gateway"); status != "0" {
		t.Errorf("after SIGTERM the gateway's status is %s", status)
	}
}

// handOver registers a sandbox and returns the directory that its container
// gets: the token and the authority, readable for its user alone.
func (e *engine) handOver(state string, cli func(...string) (string, error)) string {
	e.t.Helper()
	out, err := cli("sandbox", "create", "web", "--expose", "8080", "--expose-readiness-path", "/ready", "-o", "json")
	var created openshellv1.SandboxResponse
	if err != nil || protojson.Unmarshal([]byte(out), &created) != nil {
		e.t.Fatalf("%v\n%s", err, out)
	}
	dir := filepath.Join(e.dir, "hand-over")
	if err := os.Mkdir(dir, 0o755); err != nil {
		e.t.Fatal(err)
	}
	for to, from := range map[string]string{
		"token":  filepath.Join("sandboxes", created.GetSandbox().GetMetadata().GetId(), "token"),
		"ca.crt": "ca.crt",
	} {
		b, err := os.ReadFile(filepath.Join(state, from))
		if err != nil {
			e.t.Fatal(err)
		}
		to = filepath.Join(dir, to)
		if err := os.WriteFile(to, b, 0o400); err != nil {
			e.t.Fatal(err)
		}
		if err := os.Chown(to, 65532, 65532); err != nil {
			e.t.Fatal(err)
		}
	}
	return dir
}
