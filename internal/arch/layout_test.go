// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"bytes"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

const (
	maxFile         = 400 // lines of a file
	maxTestFile     = 600
	maxFunction     = 80 // lines of a function, exclusive
	maxTestFunction = 120
	minSentences    = 2 // of a package comment
)

// checkBudgets holds files and functions to a length that one reading takes in.
func checkBudgets(tr *tree) []finding {
	var found []finding
	for _, f := range tr.goFiles() {
		lines, fileMax, funcMax := bytes.Count(f.text, []byte("\n")), maxFile, maxFunction
		if f.isTest {
			fileMax, funcMax = maxTestFile, maxTestFunction
		}
		if lines > fileMax {
			found = append(found, tr.at(f, f.ast, "%d lines, at most %d: split it by what its parts promise", lines, fileMax))
		}
		for _, decl := range f.ast.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			length := tr.fset.Position(fn.End()).Line - tr.fset.Position(fn.Pos()).Line + 1
			if length >= funcMax {
				found = append(found, tr.at(f, fn, "%s has %d lines, fewer than %d are allowed: name its steps", fn.Name.Name, length, funcMax))
			}
		}
	}
	return found
}

var sentenceEnd = regexp.MustCompile(`[.!?]["')]?(\s|$)`)

// checkPackageDocs wants one package comment, in doc.go, that says something.
func checkPackageDocs(tr *tree) []finding {
	var found []finding
	for dir, files := range tr.packages() {
		if tr.lacks(path.Join(dir, "doc.go")) {
			found = append(found, finding{dir, 1, "no doc.go: say there what the package promises (concurrency, order, who owns what)"})
		}
		for _, f := range files {
			doc := f.ast.Doc.Text()
			switch isDoc := path.Base(f.path) == "doc.go"; {
			case isDoc && len(sentenceEnd.FindAllString(doc, -1)) < minSentences:
				found = append(found, tr.at(f, f.ast, "the package comment has fewer than %d sentences: what does the package promise?", minSentences))
			case isDoc && f.ast.Name.Name == "main" && !strings.HasPrefix(doc, "Command "):
				found = append(found, tr.at(f, f.ast, "the comment of a command begins with \"Command %s\"", path.Base(dir)))
			case isDoc && f.ast.Name.Name != "main" && !strings.HasPrefix(doc, "Package "+f.ast.Name.Name+" "):
				found = append(found, tr.at(f, f.ast, "the package comment begins with \"Package %s\"", f.ast.Name.Name))
			case !isDoc && doc != "":
				found = append(found, tr.at(f, f.ast, "the package comment belongs in doc.go (is a blank line missing after the licence?)"))
			}
		}
	}
	return found
}

const (
	copyright = "Copyright The sandbox-agent Authors"
	spdx      = "SPDX-License-Identifier: Apache-2.0"
)

// hashBang is what a script may have before its licence lines.
var hashBang = regexp.MustCompile(`^#![^\n]*\n`)

// checkLicence wants the two licence lines and a blank line at the top of
// every source file, in the file's own kind of comment.
func checkLicence(tr *tree) []finding {
	var found []finding
	for _, f := range tr.files {
		mark := ""
		switch ext := path.Ext(f.path); {
		case strings.Contains("/"+f.path, "/testdata/"):
		case slices.Contains([]string{".go", ".proto", ".rs", ".ts"}, ext):
			mark = "// "
		case ext == ".sh" || hashBang.Match(f.text) || path.Base(f.path) == "Makefile":
			mark = "# "
		}
		text := hashBang.ReplaceAll(f.text, nil)
		if mark != "" && !bytes.HasPrefix(text, []byte(mark+copyright+"\n"+mark+spdx+"\n\n")) {
			found = append(found, finding{f.path, 1, "does not begin with the two licence lines and a blank line: \"" + mark + copyright + "\", \"" + mark + spdx + "\""})
		}
	}
	return found
}

// checkState forbids what makes a package's behaviour depend on who else is
// linked: init functions, and tables that any importer can change.
func checkState(tr *tree) []finding {
	var found []finding
	for _, f := range tr.goFiles() {
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				found = append(found, tr.at(f, fn, "init runs unasked in whoever imports this: make it a constructor's work"))
			}
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.VAR || f.isTest {
				continue
			}
			for _, spec := range gen.Specs {
				if name := exportedTable(spec.(*ast.ValueSpec)); name != nil {
					found = append(found, tr.at(f, name, "%s is a table that every importer can change: unexport it and export a function", name.Name))
				}
			}
		}
	}
	return found
}

// exportedTable returns the first exported name of a spec that declares a map
// or a slice, or nil.
func exportedTable(spec *ast.ValueSpec) *ast.Ident {
	isTable := func(e ast.Expr) bool {
		if lit, ok := e.(*ast.CompositeLit); ok {
			e = lit.Type
		}
		switch e := e.(type) {
		case *ast.MapType:
			return true
		case *ast.ArrayType:
			return e.Len == nil
		}
		return false
	}
	if !isTable(spec.Type) && !slices.ContainsFunc(spec.Values, isTable) {
		return nil
	}
	for _, name := range spec.Names {
		if name.IsExported() {
			return name
		}
	}
	return nil
}

const contributing = "CONTRIBUTING.md"

// checkPlaces wants a row in CONTRIBUTING.md for each directory at the top: what
// it is, and what goes there.
func checkPlaces(tr *tree) []finding {
	_, table, _ := strings.Cut(tr.read(contributing), "\n## Where things are\n")
	table, _, _ = strings.Cut(table, "\n## ")
	described := map[string]bool{}
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) > 1 {
			for _, m := range inBackticks.FindAllStringSubmatch(cells[1], -1) {
				top, _, _ := strings.Cut(m[1], "/")
				described[top] = true
			}
		}
	}
	var found []finding
	for _, f := range tr.files {
		top, _, below := strings.Cut(f.path, "/")
		if below && !described[top] {
			described[top] = true // said once
			found = append(found, finding{contributing, 1, "no row for " + top + "/: what is it, what goes there?"})
		}
	}
	return found
}
