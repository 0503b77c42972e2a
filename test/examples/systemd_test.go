// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

// The image is built and booted. Needs root, what the group systemd of
// .ci/setup installs, and the packages: make examples-systemd.
func TestSystemdImage(t *testing.T) {
	t.Parallel()
	for _, needed := range []string{"systemd-nspawn", "mmdebstrap"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Skipf("%s is missing: run make examples-systemd", needed)
		}
	}
	if found, err := filepath.Glob(filepath.Join(kit.Root(), "dist", "sandbox-agent_*.deb")); err != nil || len(found) == 0 {
		t.Skipf("no packages (%v): run make examples-systemd", err)
	}
	s := newStage(t)
	group := newGroup(t)
	s.env = []string{
		"NSPAWN_CGROUP=" + group,
		"PATH=" + filepath.Join(kit.Root(), "test/examples/nspawn") + ":" + s.bed.Bin + ":" + os.Getenv("PATH"),
	}
	s.follow("examples/systemd-image/README.md", nil)
}

// newGroup makes a cgroup of version 2 for a machine. Whatever is in it at the
// end of the test is killed.
func newGroup(t *testing.T) string {
	t.Helper()
	root := "/sys/fs/cgroup/unified"
	if _, err := os.Stat(root); err != nil {
		root = "/sys/fs/cgroup"
	}
	group := filepath.Join(root, fmt.Sprintf("examples-%d", os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(filepath.Join(group, "cgroup.kill"), []byte("1"), 0); err != nil {
			t.Error(err)
		}
		// The killed need a moment to be gone.
		err := kit.Until(context.WithoutCancel(t.Context()), 10*time.Second, "the machine's cgroups to be gone", func() (bool, string) { return removeGroup(group) })
		if err != nil {
			t.Error(err)
		}
	})
	return group
}

// removeGroup removes a cgroup and those in it, children first.
func removeGroup(group string) (bool, string) {
	var groups []string
	filepath.WalkDir(group, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			groups = append(groups, path)
		}
		return nil
	})
	slices.Reverse(groups)
	for _, g := range groups {
		if err := os.Remove(g); err != nil {
			return false, err.Error()
		}
	}
	return true, "gone"
}
