// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

var update = flag.Bool("update", false, "write api/testdata and api/inventory.txt anew")

func TestMain(m *testing.M) { testkit.Main(m) }

// golden compares content with a checked-in file, or writes it. name is below
// the top of the tree.
func golden(t *testing.T, name string, content []byte) {
	t.Helper()
	file := filepath.Join(kit.Root(), name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, content, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Errorf("%v (go test ./test/conformance -update writes it)", err)
		return
	}
	if !bytes.Equal(content, want) {
		t.Errorf("%s is not what the code makes (go test ./test/conformance -update). The first difference:\n%s", name, difference(want, content))
	}
}

// difference shows the first line that is not the same.
func difference(want, got []byte) string {
	a, b := bytes.Split(want, []byte("\n")), bytes.Split(got, []byte("\n"))
	for i := range max(len(a), len(b)) {
		var x, y []byte
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if !bytes.Equal(x, y) {
			return "- " + string(x) + "\n+ " + string(y)
		}
	}
	return ""
}
