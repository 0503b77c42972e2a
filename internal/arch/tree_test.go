// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/sandbox-agent/sandbox-agent"

// tree is what the rules look at: every text file of the repository.
type tree struct {
	fset  *token.FileSet
	files []*file
	lacks func(path string) bool // a path, from the root, that does not exist
}

// file is one text file. The fields from pkg on are set for Go files of the
// main module only.
type file struct {
	path      string // from the root, with slashes
	dir       string
	text      []byte
	ast       *ast.File
	pkg       string            // import path below the module's, "" for the root
	imports   map[string]string // local name -> import path
	isTest    bool              // a _test.go file
	generated bool
}

// finding is one breach of one rule.
type finding struct {
	path string
	line int
	text string
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.path, f.line, f.text) }

func (tr *tree) at(f *file, n ast.Node, format string, args ...any) finding {
	return finding{f.path, tr.fset.Position(n.Pos()).Line, fmt.Sprintf(format, args...)}
}

// goFiles returns the Go files of the main module, without generated ones.
func (tr *tree) goFiles() []*file {
	return slices.DeleteFunc(tr.allGoFiles(), func(f *file) bool { return f.generated })
}

func (tr *tree) allGoFiles() []*file {
	return slices.DeleteFunc(slices.Clone(tr.files), func(f *file) bool { return f.ast == nil })
}

// packages returns the Go files by directory.
func (tr *tree) packages() map[string][]*file {
	byDir := map[string][]*file{}
	for _, f := range tr.allGoFiles() {
		byDir[f.dir] = append(byDir[f.dir], f)
	}
	return byDir
}

// under reports whether the file lies in one of the directories.
func (f *file) under(dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return f.dir == d || strings.HasPrefix(f.dir, d+"/") })
}

var generatedMark = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// add parses one file into the tree. A Go file of another module (isGo false)
// is only text.
func (tr *tree) add(p string, text []byte, isGo bool) error {
	f := &file{path: p, dir: path.Dir(p), text: text}
	tr.files = append(tr.files, f)
	if !isGo {
		return nil
	}
	parsed, err := parser.ParseFile(tr.fset, p, text, parser.ParseComments)
	if err != nil {
		return err
	}
	f.ast = parsed
	f.pkg = strings.TrimPrefix(f.dir, ".")
	f.isTest = strings.HasSuffix(p, "_test.go")
	f.generated = generatedMark.Match(text)
	f.imports = map[string]string{}
	for _, spec := range parsed.Imports {
		target, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		name := guessName(target)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		f.imports[name] = target
	}
	return nil
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// guessName returns the name that a package most likely has: the last element
// of its path that is not a major version.
func guessName(importPath string) string {
	dir, base := path.Split(importPath)
	if majorVersion.MatchString(base) && dir != "" {
		base = path.Base(dir)
	}
	return base
}

// skipDirs are not ours, or not text.
var skipDirs = []string{".git", ".tools", "bin", "dist", "node_modules", "target"}

// skipFile is made by cargo for whoever builds, and is not in the repository.
const skipFile = "Cargo.lock"

// repository reads the tree that this test stands in, once.
var repository = sync.OnceValues(func() (*tree, error) {
	root := filepath.Join("..", "..")
	tr := &tree{fset: token.NewFileSet()}
	tr.lacks = func(p string) bool {
		_, err := os.Stat(filepath.Join(root, filepath.FromSlash(p)))
		return err != nil
	}
	var nested []string // directories of other Go modules
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if slices.Contains(skipDirs, d.Name()) {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil && rel != "." {
				nested = append(nested, rel+"/")
			}
			return nil
		}
		if !d.Type().IsRegular() || d.Name() == skipFile {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil || bytes.IndexByte(text[:min(len(text), 8000)], 0) >= 0 {
			return err
		}
		ours := strings.HasSuffix(rel, ".go") && !strings.Contains("/"+rel, "/testdata/") &&
			!slices.ContainsFunc(nested, func(dir string) bool { return strings.HasPrefix(rel, dir) })
		return tr.add(rel, text, ours)
	})
	return tr, err
})

func loadRepository(t *testing.T) *tree {
	t.Helper()
	tr, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.goFiles()) < 10 {
		t.Fatalf("found %d Go files: is this the repository?", len(tr.goFiles()))
	}
	return tr
}

// sample builds a tree from path, text pairs, with a licence header and a
// package clause added to Go texts that lack them.
func sample(t *testing.T, pairs ...string) *tree {
	t.Helper()
	tr := &tree{fset: token.NewFileSet()}
	for i := 0; i < len(pairs); i += 2 {
		isGo := strings.HasSuffix(pairs[i], ".go")
		if err := tr.add(pairs[i], []byte(pairs[i+1]), isGo); err != nil {
			t.Fatal(err)
		}
	}
	tr.lacks = func(p string) bool {
		return !slices.ContainsFunc(tr.files, func(f *file) bool { return f.path == p })
	}
	return tr
}
