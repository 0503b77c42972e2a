// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what was found into testdata")

// TestBinaries compares the outside modules that each command links with the
// reviewed list in testdata: a module that is new to a binary shows in a diff.
func TestBinaries(t *testing.T) {
	linked := linkedModules(t)
	if len(linked) == 0 {
		t.Fatal("no commands below cmd/")
	}
	for name, modules := range linked {
		golden := filepath.Join("testdata", "linked", name+".txt")
		if *update {
			if err := os.WriteFile(golden, []byte(strings.Join(modules, "\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		reviewed, err := os.ReadFile(golden)
		if err != nil {
			t.Errorf("%v (go test ./internal/arch -run Binaries -update writes it)", err)
			continue
		}
		for _, complaint := range compareLinked(modules, strings.Fields(string(reviewed))) {
			t.Errorf("%s %s: see %s (-update)", name, complaint, golden)
		}
	}
}

func compareLinked(modules, reviewed []string) []string {
	var complaints []string
	for _, m := range modules {
		if !slices.Contains(reviewed, m) {
			complaints = append(complaints, "links "+m+", which nobody reviewed: is it worth its weight there?")
		}
	}
	for _, m := range reviewed {
		if !slices.Contains(modules, m) {
			complaints = append(complaints, "no longer links "+m)
		}
	}
	return complaints
}

// listed is what the go command says of one package.
type listed struct {
	ImportPath, Name string
	Imports          []string
	Module           *struct{ Path string }
}

// linkedModules returns the outside modules of each command.
func linkedModules(t *testing.T) map[string][]string {
	t.Helper()
	all := listPackages(t, "./cmd/...")
	linked := map[string][]string{}
	for _, p := range all {
		if name, ok := strings.CutPrefix(p.ImportPath, module+"/cmd/"); ok && p.Name == "main" {
			modules := map[string]bool{}
			collect(all, p.ImportPath, map[string]bool{}, modules)
			linked[name] = slices.Sorted(maps.Keys(modules))
		}
	}
	return linked
}

func collect(all map[string]listed, importPath string, seen, modules map[string]bool) {
	if seen[importPath] {
		return
	}
	seen[importPath] = true
	p := all[importPath]
	if p.Module != nil && p.Module.Path != module {
		modules[p.Module.Path] = true
	}
	for _, next := range p.Imports {
		collect(all, next, seen, modules)
	}
}

// listPackages asks the go command for packages and all that they import, for
// one platform so that the answer is the same everywhere.
func listPackages(t *testing.T, pattern string) map[string]listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Name,Imports,Module", pattern)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	all := map[string]listed{}
	dec := json.NewDecoder(bytes.NewReader(out))
	for {
		var p listed
		if err := dec.Decode(&p); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[p.ImportPath] = p
	}
}
