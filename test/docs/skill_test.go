// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"maps"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const skill = "skills/sandboxctl/SKILL.md"

// TestSkill holds the guide for coding agents to its form: front matter that
// tells when to read it, and a length that leaves room for the work.
func TestSkill(t *testing.T) {
	p := read(t, skill)
	text := strings.Join(p.prose, "\n")
	if n := len(p.prose) - 1; n > 150 {
		t.Errorf("it has %d lines, at most 150 are allowed", n)
	}
	front, _, ok := strings.Cut(strings.TrimPrefix(text, "---\n"), "\n---\n")
	var matter struct{ Name, Description string }
	if err := yaml.UnmarshalStrict([]byte(front), &matter); err != nil || !ok || !strings.HasPrefix(text, "---\n") {
		t.Fatalf("front matter: %v", err)
	}
	if matter.Name != "sandboxctl" || len(matter.Description) < 50 || len(matter.Description) > 1024 {
		t.Errorf("front matter: name %q, a description of %d characters", matter.Name, len(matter.Description))
	}
	for _, word := range []string{"UNKNOWN", "service wait", "service watch", "service history", "service open", "-o json"} {
		if !strings.Contains(text+strings.Join(p.fenced, "\n"), word) {
			t.Errorf("it does not speak of %s", word)
		}
	}
}

var (
	helpCode = regexp.MustCompile(`(\d) ([a-z ]+)[,.]`)
	codeRow  = regexp.MustCompile(`(?m)^\| (\d) \| ([a-z ]+)`)
)

// TestExitCodes holds the guide's table to what the command says of itself, and
// that to what it does.
func TestExitCodes(t *testing.T) {
	_, help := binary(t, "sandboxctl", "--help")
	_, said, ok := strings.Cut(help, "Exit codes: ")
	if !ok {
		t.Fatalf("no exit codes in the help:\n%s", help)
	}
	said, _, _ = strings.Cut(said, "\n")
	command, guide := map[string]string{}, map[string]string{}
	for _, m := range helpCode.FindAllStringSubmatch(said, -1) {
		command[m[1]] = m[2]
	}
	for _, m := range codeRow.FindAllStringSubmatch(strings.Join(read(t, skill).prose, "\n"), -1) {
		guide[m[1]] = strings.TrimSpace(m[2])
	}
	if len(command) != 5 || !maps.Equal(command, guide) {
		t.Errorf("sandboxctl --help: %v\n%s: %v", command, skill, guide)
	}
	for want, args := range map[int][]string{0: {"version"}, 1: {"service", "list"}, usage: {"service", "get"}} {
		if code, out := binary(t, "sandboxctl", args...); code != want {
			t.Errorf("sandboxctl %s: exit %d, want %d\n%s", strings.Join(args, " "), code, want, out)
		}
	}
}
