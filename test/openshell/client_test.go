// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package openshell

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

// refused are codes that client.py itself asks for, as the right answer to
// what is wrong.
var refused = []string{"UNAUTHENTICATED", "UNAVAILABLE", "NOT_FOUND", "INVALID_ARGUMENT", "ALREADY_EXISTS"}

// Each call of the real client succeeds, or says what is missing; and what
// docs/openshell.md tells of it is what came out.
func TestClient(t *testing.T) {
	python := interpreter(t)
	all := steps(t, python)
	c := compare(published(t, python))
	for _, s := range all {
		switch {
		case s.Code == "OK", slices.Contains(refused, s.Code) && s.Text != "":
		case s.Code == "UNIMPLEMENTED" && strings.Contains(s.Text, ": "): // what was asked for: what is missing
		default:
			t.Errorf("%s, %s: %s %q", s.Area, s.Name, s.Code, s.Text)
		}
	}
	calls := answers(all, "calls")
	for _, name := range c.served {
		if s, ok := calls[name]; !ok || s.Code == "UNIMPLEMENTED" {
			t.Errorf("%s is served, and was answered %+v", name, s)
		}
	}
	for _, name := range c.unserved {
		if s := calls[name]; s.Code != "UNIMPLEMENTED" || !strings.HasPrefix(s.Text, name+": ") {
			t.Errorf("%s is not served, and was answered %+v", name, s)
		}
	}
	for _, c := range commands {
		for name := range strings.FieldsSeq(c.calls) {
			if _, ok := calls[name]; !ok {
				t.Errorf("openshell %s calls %s, which the package does not have", c.name, name)
			}
		}
	}
	if !t.Failed() {
		compareFile(t, page(version(t), all, c))
	}
}

// answers are the steps of an area by name.
func answers(all []step, area string) map[string]step {
	m := make(map[string]step)
	for _, s := range all {
		if s.Area == area {
			m[s.Name] = s
		}
	}
	return m
}

func compareFile(t *testing.T, content []byte) {
	t.Helper()
	file := filepath.Join(kit.Root(), "docs", "openshell.md")
	if *update {
		if err := os.WriteFile(file, content, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("docs/openshell.md does not tell what came out (%v); go test ./test/openshell -update makes it\n%s", err, difference(got, content))
	}
}

// difference shows the first line that is another.
func difference(got, want []byte) string {
	g, w := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range w {
		if i >= len(g) || !bytes.Equal(g[i], w[i]) {
			line := []byte("(the end)")
			if i < len(g) {
				line = g[i]
			}
			return "there: " + string(line) + "\ncame out: " + string(w[i])
		}
	}
	return "there is more in it than came out"
}
