// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"maps"
	"regexp"
	"strings"
	"testing"
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
	m := matter.FindStringSubmatch(front)
	if !ok || !strings.HasPrefix(text, "---\n") || m == nil {
		t.Fatalf("the front matter is not a name and a description, each on a line: %q", front)
	}
	if m[1] != "sandboxctl" || len(m[2]) < 50 || len(m[2]) > 1024 || strings.Contains(m[2], ": ") {
		t.Errorf("front matter: name %q, a description of %d characters (without colons)", m[1], len(m[2]))
	}
	for _, word := range []string{"UNKNOWN", "service wait", "service watch", "service history", "service open", "-o json"} {
		if !strings.Contains(text+strings.Join(p.fenced, "\n"), word) {
			t.Errorf("it does not speak of %s", word)
		}
	}
}

var (
	matter   = regexp.MustCompile(`^name: ([a-z]+)\ndescription: (.+)$`)
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
