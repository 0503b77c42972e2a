// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

// configuration suits hosts without systemd and with cgroups of both versions.
const configuration = `
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=20000:20000"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
`

// The image of the Codex app-server is built and run. Needs root, and what the
// group containers of .ci/setup installs: make examples-image.
func TestCodexImage(t *testing.T) {
	t.Parallel()
	for _, needed := range []string{"podman", "runc"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Skipf("%s is missing: run make examples-image", needed)
		}
	}
	s := newStage(t)
	store := filepath.Join(filepath.Dir(s.tmp), "podman")
	conf := filepath.Join(s.tmp, "containers.conf")
	if err := os.WriteFile(conf, []byte(configuration), 0o644); err != nil {
		t.Fatal(err)
	}
	shim := filepath.Join(kit.Root(), "test/examples/podman")
	s.env = []string{"PODMAN_DIR=" + store, "CONTAINERS_CONF=" + conf, "PATH=" + shim + ":" + s.bed.Bin + ":" + os.Getenv("PATH")}
	podman := func(name string, args ...string) {
		cmd := exec.Command(name, args...)
		cmd.Env = s.environment()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s %q: %v\n%s", name, args, err, out)
		}
	}
	t.Cleanup(func() {
		podman(filepath.Join(shim, "podman"), "rm", "--all", "--force", "--time=0")
		podman(filepath.Join(shim, "podman"), "system", "reset", "--force")
	})
	// As make images does, from the binaries under test.
	podman(filepath.Join(kit.Root(), "packaging/containers/build"), s.bed.Bin)
	s.follow("examples/codex-app-server/image.md", nil)
}
