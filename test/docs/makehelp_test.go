// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

// What make lists has its columns, however long a target's name is, and each
// target that says what it does is in it.
func TestMakeHelp(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "make", "help")
	cmd.Dir = kit.Root()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	listed, column := 0, 0
	for line := range strings.Lines(string(out)) {
		rest, ok := strings.CutPrefix(line, "  make ")
		if !ok {
			continue
		}
		target, _, _ := strings.Cut(rest, " ")
		what := strings.TrimLeft(rest[len(target):], " ")
		at, gap := len(line)-len(what), len(rest)-len(target)-len(what)
		if column == 0 {
			column = at
		}
		if at != column || gap < 2 || what == "\n" {
			t.Errorf("column %d, %d spaces before it, want column %d and 2: %q", at, gap, column, line)
		}
		listed++
	}
	makefile, err := os.ReadFile(filepath.Join(kit.Root(), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	described := regexp.MustCompile(`(?m)^[a-z0-9-]+:.* ## `).FindAll(makefile, -1)
	if listed == 0 || listed != len(described) {
		t.Errorf("%d targets are listed, %d say what they do", listed, len(described))
	}
}
