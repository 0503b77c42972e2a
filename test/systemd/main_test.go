// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// world is what test/systemd.sh has made for this run.
type world struct {
	root     string // the machines' root file system
	packages string // directory of the packages under test
	previous string // directory of the packages that are upgraded
	run      string // names this run in cgroups and network namespaces
}

func newWorld(t *testing.T) world {
	t.Helper()
	w := world{
		root: os.Getenv("SYSTEMD_TEST_ROOT"), packages: os.Getenv("SYSTEMD_TEST_PACKAGES"),
		previous: os.Getenv("SYSTEMD_TEST_PREVIOUS"), run: os.Getenv("SYSTEMD_TEST_RUN"),
	}
	if w.root == "" || w.packages == "" || w.previous == "" || w.run == "" {
		t.Skip("no root file system and no packages: run make e2e-systemd")
	}
	return w
}

// deb returns the path, on a machine, of the package of a command.
func (w world) deb(t *testing.T, dir, command string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, command+"_*_"+runtime.GOARCH+".deb"))
	if err != nil || len(found) != 1 {
		t.Fatalf("packages of %s in %s: %q, %v", command, dir, found, err)
	}
	return filepath.Join("/", filepath.Base(dir), filepath.Base(found[0]))
}

func until(t *testing.T, limit time.Duration, what string, f func() (bool, string)) {
	t.Helper()
	if err := kit.Until(t.Context(), limit, what, f); err != nil {
		t.Fatal(err)
	}
}
