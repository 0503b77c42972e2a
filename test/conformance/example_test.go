// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

// The first example of the TypeScript SDK's README, as it stands there, creates
// a sandbox on a real gateway, waits for it and deletes it.
func TestReadmeTypeScript(t *testing.T) {
	file := filepath.Join(kit.Root(), "sdk/typescript/dist/test/readme.test.js")
	if _, err := os.Stat(file); err != nil {
		if os.Getenv("CONFORMANCE_REQUIRE") != "" {
			t.Fatal(err)
		}
		t.Skipf("%v: it is not built", err)
	}
	s := newStage(t)
	cmd := exec.CommandContext(t.Context(), "node", "--test", "--test-name-pattern=first example", file)
	cmd.Env = append(os.Environ(), "README_STATE_DIR="+s.State)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "# pass 1\n") || strings.Contains(string(out), "SKIP README") {
		t.Fatalf("%v\n%s", err, out)
	}
}
