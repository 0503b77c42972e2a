// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

const usage = 2 // exit code of a command line that is wrong, in all three programs

// binary runs a binary in an empty world: there is no gateway, and nothing that
// it could change.
func binary(t *testing.T, program string, args ...string) (code int, output string) {
	t.Helper()
	if _, err := kit.New(t.TempDir(), nil); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(kit.Root(), "bin", program), args...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "SANDBOX_GATEWAY_STATE_DIR=" + t.TempDir()}
	cmd.Dir = t.TempDir()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

// dry is a command line that has the daemons look at their flags and do
// nothing; sandboxctl does nothing without a gateway.
func (c commandLine) dry() []string {
	if c.program == "sandboxctl" || c.args[0] != "run" && c.args[0] != "serve" {
		return c.args
	}
	args := slices.Clone(c.args)
	if at := slices.Index(args, "--"); at >= 0 {
		args = args[:at]
	}
	return append(args, "--help")
}

// wrong says what the binary has against a command line, or nothing.
func (c commandLine) wrong(t *testing.T) string {
	t.Helper()
	code, output := binary(t, c.program, c.dry()...)
	named := c.span && strings.Contains(output, " needs ") && !strings.Contains(output, "needs a command")
	if code != usage && !strings.Contains(output, "unknown command") || named {
		return ""
	}
	return output
}

// TestEveryCommand has the binaries read every command line of every page.
func TestEveryCommand(t *testing.T) {
	count := 0
	for _, p := range pages(t) {
		for _, c := range p.commandLines() {
			count++
			if said := c.wrong(t); said != "" {
				t.Errorf("%s: %s\n%s", c.where, c, said)
			}
		}
	}
	t.Logf("%d command lines", count)
	if count < 60 {
		t.Errorf("found %d command lines: the pages have more", count)
	}
}

func TestWrongCommands(t *testing.T) {
	for _, line := range []string{
		"sandboxctl service wait web --for ready", "sandboxctl service get", "sandboxctl service got web",
		"sandboxctl sandbox create web --expose-readiness-path /x", "sandbox-agent run --gatewy x -- y",
		"sandbox-gateway serve --drain-grace soon", "sandbox-gateway start", "sandbox-agent check --probe none",
	} {
		list := parse("a.md", "```\n"+line+"\n```\n").commandLines()
		if len(list) != 1 || list[0].wrong(t) == "" {
			t.Errorf("%s: nothing wrong in %v", line, list)
		}
	}
}
