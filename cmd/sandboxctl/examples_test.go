// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// lines returns the examples of a command, each without the word sandboxctl.
func lines(t *testing.T, cmd *cobra.Command) []string {
	var list []string
	for line := range strings.Lines(cmd.Example) {
		args, ok := strings.CutPrefix(line, "  sandboxctl ")
		if !ok {
			t.Errorf("%s: example %q does not begin with two spaces and the command", cmd.CommandPath(), line)
		}
		list = append(list, strings.TrimSpace(args))
	}
	return list
}

// Every command has help with examples, and each example works.
func TestExamples(t *testing.T) {
	visit((&app{}).root(), func(cmd *cobra.Command) {
		if len(lines(t, cmd)) == 0 || cmd.Short == "" {
			t.Errorf("%s has no example or no description", cmd.CommandPath())
		}
		for _, line := range lines(t, cmd) {
			t.Run(line, func(t *testing.T) {
				f := newFixture(t)
				if !strings.HasPrefix(line, "sandbox create") { // which wants its name free
					f.fill()
				} else if strings.Contains(line, "--wait") {
					f.boot(t, strings.Fields(line)[2])
				}
				got := f.run(t, strings.Fields(line)...)
				if got.code != exitDone || got.out == "" {
					t.Errorf("exit %d:\n%s%s", got.code, got.out, got.err)
				}
			})
		}
		f := newFixture(t)
		help := f.run(t, append(strings.Fields(cmd.CommandPath())[1:], "--help")...)
		if again := f.run(t, append([]string{"help"}, strings.Fields(cmd.CommandPath())[1:]...)...); again != help {
			t.Errorf("help of %s differs from its --help:\n%s%s", cmd.CommandPath(), again.out, again.err)
		}
		if help.code != exitDone || help.err != "" || !strings.Contains(help.out, cmd.Example) {
			t.Errorf("%s --help: exit %d:\n%s%s", cmd.CommandPath(), help.code, help.out, help.err)
		}
	})
}

// Every flag of a command is explained.
func TestFlagsAreExplained(t *testing.T) {
	visit((&app{}).root(), func(cmd *cobra.Command) {
		if usages := cmd.LocalFlags().FlagUsages(); strings.Contains(usages, "string ") {
			t.Errorf("%s: a flag does not name its value:\n%s", cmd.CommandPath(), usages)
		}
	})
}

func visit(cmd *cobra.Command, f func(*cobra.Command)) {
	f(cmd)
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			visit(c, f)
		}
	}
}

func TestCompletion(t *testing.T) {
	f := newFixture(t)
	f.fill()
	for line, want := range map[string]string{
		"__complete sandbox get ":             "api\nnew\nold\nweb\n:4\n",
		"__complete service get w":            "web\n:4\n",
		"__complete service get web ":         "docs\n:4\n",
		"__complete service delete api ":      "admin\n:4\n",
		"__complete service wait api ":        "admin\n:4\n",
		"__complete service watch w":          "web\n:4\n",
		"__complete service watch new ":       "next\n:4\n",
		"__complete service history web ":     "docs\n:4\n",
		"__complete service history web a ":   ":4\n",
		"__complete service get nobody ":      ":4\n",
		"__complete service wait web --for ":  "healthy\nunhealthy\nunknown\n:4\n",
		"__complete sandbox list -o ":         "table\njson\nyaml\n:4\n",
		"__complete sandbox create --driver ": "external\nlocal\n:4\n",
		"__complete sandbox get -w blue ":     "far\n:4\n",
		"__complete completion ":              "bash\nzsh\nfish\n:4\n",
	} {
		args := strings.Split(strings.TrimSuffix(line, " "), " ")
		if strings.HasSuffix(line, " ") {
			args = append(args, "")
		}
		if got := f.run(t, args...); !strings.HasSuffix(got.out, want) || len(got.out) > len(want)+20 {
			t.Errorf("%s: %q, want %q", line, got.out, want)
		}
	}
	f.env = map[string]string{"HOME": f.dir}
	if got := f.run(t, "__complete", "sandbox", "get", ""); got.out != ":4\n" {
		t.Errorf("without a gateway: %q", got.out)
	}
}
