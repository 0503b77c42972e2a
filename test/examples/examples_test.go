// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

// Pages that need nothing but their own commands.
func TestPages(t *testing.T) {
	for _, page := range []string{
		"examples/README.md",
		"examples/go/README.md",
		"examples/typescript/README.md",
		"examples/rust/README.md",
		"examples/codex-app-server/README.md",
	} {
		t.Run(filepath.Base(filepath.Dir(page)), func(t *testing.T) {
			t.Parallel()
			newStage(t).follow(page, nil)
		})
	}
}

// The Go SDK's page shows the program that TestPages runs.
func TestReadmeGo(t *testing.T) {
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(kit.Root(), name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	_, program, _ := strings.Cut(read("examples/go/main.go"), "\n\n")
	shown := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(read("sdk/go/README.md"))
	if shown == nil || shown[1] != program {
		t.Error("the program in sdk/go/README.md is not examples/go/main.go without its licence")
	}
}
