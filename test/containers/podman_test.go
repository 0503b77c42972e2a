// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// engine is podman with a store and a network name space of its own.
type engine struct {
	t     *testing.T
	dir   string
	bin   string // directory of the binaries
	space string // what begins a command in the network name space
}

// configuration suits hosts without systemd and with cgroups of both versions.
const configuration = `
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=20000:20000"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
[network]
network_backend = "netavark"
`

// newEngine builds the images.
func newEngine(t *testing.T) *engine {
	t.Helper()
	for _, needed := range []string{"podman", "runc", "ip"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Skipf("%s is missing: run make e2e-containers", needed)
		}
	}
	if os.Getuid() != 0 {
		t.Skip("podman is used as root")
	}
	// Not t.TempDir: what is mounted below it may outlive its removal.
	dir, err := os.MkdirTemp("", "containers-")
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{t: t, dir: dir, bin: filepath.Join(kit.Root(), "bin")}
	e.network()
	t.Cleanup(func() {
		e.try("rm", "--all", "--force", "--time=0", "--volumes")
		e.try("network", "prune", "--force")
		e.try("system", "reset", "--force")
		os.RemoveAll(dir)
	})
	if err := os.WriteFile(e.conf(), []byte(configuration), 0o644); err != nil {
		t.Fatal(err)
	}
	build := exec.Command(filepath.Join(kit.Root(), "packaging/containers/build"), e.bin)
	build.Env = append(os.Environ(), "CONTAINERS_CONF="+e.conf(), "PODMAN="+e.space+" podman "+strings.Join(e.options(), " "))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the images: %v\n%s", err, out)
	}
	return e
}

// network makes the name space; podman's bridges and rules go with it.
func (e *engine) network() {
	e.t.Helper()
	name := filepath.Base(e.dir)
	for _, args := range [][]string{{"netns", "add", name}, {"-n", name, "link", "set", "lo", "up"}} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			e.t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	e.t.Cleanup(func() { exec.Command("ip", "netns", "del", name).Run() })
	e.space = "nsenter --net=/run/netns/" + name
}

// command returns a command in the network name space.
func (e *engine) command(name string, args ...string) *exec.Cmd {
	words := strings.Fields(e.space)
	return exec.Command(words[0], append(append(words[1:], name), args...)...)
}

func (e *engine) conf() string { return filepath.Join(e.dir, "containers.conf") }

func (e *engine) options() []string {
	return []string{"--root", filepath.Join(e.dir, "root"), "--runroot", filepath.Join(e.dir, "run"), "--network-config-dir", filepath.Join(e.dir, "networks")}
}

// try runs podman and returns what it printed, trimmed.
func (e *engine) try(args ...string) (string, error) {
	cmd := e.command("podman", append(e.options(), args...)...)
	cmd.Env = append(os.Environ(), "CONTAINERS_CONF="+e.conf())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("podman %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), err
}

// podman is try that fails the test.
func (e *engine) podman(args ...string) string {
	e.t.Helper()
	out, err := e.try(args...)
	if err != nil {
		e.t.Fatal(err)
	}
	return out
}

// sandbox builds an image as somebody would whose sandboxes have the agent as
// process 1: here busybox is all that they hold besides.
func (e *engine) sandbox() {
	e.t.Helper()
	context := filepath.Join(e.dir, "sandbox")
	if err := os.MkdirAll(context, 0o755); err != nil {
		e.t.Fatal(err)
	}
	if out, err := exec.Command("cp", "/bin/busybox", context).CombinedOutput(); err != nil {
		e.t.Fatalf("%v\n%s", err, out)
	}
	file := "FROM scratch\n" +
		"COPY --from=localhost/sandbox-agent /usr/bin/sandbox-agent /usr/bin/\n" +
		"COPY busybox /bin/busybox\nCOPY busybox /srv/ready\n" +
		"USER 65532:65532\nENTRYPOINT [\"/usr/bin/sandbox-agent\", \"run\"]\n"
	if err := os.WriteFile(filepath.Join(context, "Containerfile"), []byte(file), 0o644); err != nil {
		e.t.Fatal(err)
	}
	e.podman("build", "--quiet", "--tag", "localhost/sandbox", context)
}

// exited waits for the end of a container and returns its status.
func (e *engine) exited(name string) string {
	e.t.Helper()
	e.until(20*time.Second, name+" to end", func() (bool, string) {
		state := e.podman("inspect", "--format", "{{.State.Status}}", name)
		return state == "exited", state
	})
	return e.podman("inspect", "--format", "{{.State.ExitCode}}", name)
}

func (e *engine) until(limit time.Duration, what string, f func() (bool, string)) {
	e.t.Helper()
	if err := kit.Until(e.t.Context(), limit, what, f); err != nil {
		e.t.Fatal(err)
	}
}
