// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

// around is what a reader of docs/health.md has around what it shows.
const around = `package main

import (
	"context"
	"errors"
	"log"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

var (
	_ = errors.New
	_ = log.Print
	_ = time.Second
	_ = durationpb.New
	_ *sandboxv1.WaitFailure
)

func main() {}
`

// TestSnippets compiles the Go of the page on health.
func TestSnippets(t *testing.T) {
	var program strings.Builder
	program.WriteString(around)
	count := 0
	for _, b := range read(t, "docs/health.md").blocks {
		if b.language != "go" {
			continue
		}
		count++
		fmt.Fprintf(&program, "\nfunc snippet%d(ctx context.Context, client *sandbox.Client, answer *openshellv1.ServiceEndpointResponse) error {\n%sreturn nil\n}\n", b.line, b.text)
	}
	if count < 3 {
		t.Errorf("found %d pieces of Go", count)
	}
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(program.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", os.DevNull, file)
	cmd.Dir = kit.Root()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, out, program.String())
	}
}
