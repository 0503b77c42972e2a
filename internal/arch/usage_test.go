// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"go/ast"
	"go/token"
	"iter"
	"path"
	"slices"
	"strings"
)

// nodes yields every node of type N below root.
func nodes[N ast.Node](root ast.Node) iter.Seq[N] {
	return func(yield func(N) bool) {
		for n := range ast.Preorder(root) {
			if n, ok := n.(N); ok && !yield(n) {
				return
			}
		}
	}
}

func selectors(root ast.Node) iter.Seq[*ast.SelectorExpr] { return nodes[*ast.SelectorExpr](root) }

// isImport reports whether an expression is the plain name of an import. The
// parser links names that the file itself declares to an object.
func isImport(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name && id.Obj == nil
}

// callOf returns the method or package function that a call names: x.name(…).
func callOf(e ast.Node) (call *ast.CallExpr, x ast.Expr, name string) {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return nil, nil, ""
	}
	if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
		return call, sel.X, sel.Sel.Name
	}
	return nil, nil, ""
}

// importName returns the local name of an imported package, or "".
func (f *file) importName(target string) string {
	for name, p := range f.imports {
		if p == target {
			return name
		}
	}
	return ""
}

// calls reports whether a node calls target.name somewhere.
func (f *file) calls(n ast.Node, target, name string) bool {
	local := f.importName(target)
	for sel := range selectors(n) {
		if local != "" && isImport(sel.X, local) && sel.Sel.Name == name {
			return true
		}
	}
	return false
}

// checkTests holds what every package's tests share.
func checkTests(tr *tree) []finding {
	var found []finding
	for dir, files := range tr.packages() {
		tests := slices.DeleteFunc(files, func(f *file) bool { return !f.isTest })
		if len(tests) > 0 && !tests[0].under("test") && !slices.ContainsFunc(tests, hasLeakCheck) {
			found = append(found, finding{path.Join(dir, "main_test.go"), 1, "no leak check: func TestMain(m *testing.M) { testkit.Main(m) }"})
		}
		for _, f := range tests {
			for _, decl := range f.ast.Decls {
				found = append(found, tr.checkTest(f, decl)...)
			}
		}
	}
	return found
}

func hasLeakCheck(f *file) bool {
	return slices.ContainsFunc(f.ast.Decls, func(d ast.Decl) bool {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Name.Name != "TestMain" {
			return false
		}
		return f.calls(fn, module+"/internal/testkit", "Main") || strings.Contains(f.dir, "internal/testkit")
	})
}

func (tr *tree) checkTest(f *file, decl ast.Decl) []finding {
	var found []finding
	parallel, bubble := false, f.calls(decl, module+"/internal/testkit", "Bubble")
	for n := range ast.Preorder(decl) {
		switch call, _, name := callOf(n); {
		case call == nil:
		case name == "SkipNow", name == "Skip" && len(call.Args) == 0:
			found = append(found, tr.at(f, call, "%s gives no reason: say what is missing and how to get it", name))
		case name == "Parallel" && len(call.Args) == 0:
			parallel = true
		}
	}
	if parallel && bubble {
		found = append(found, tr.at(f, decl, "a parallel test must not open a bubble: the timer pools are shared"))
	}
	return found
}

// checkErrors finds code that decides by the text of an error.
func checkErrors(tr *tree) []finding {
	var found []finding
	for _, f := range tr.goFiles() {
		if f.isTest || f.under("test") {
			continue
		}
		for n := range ast.Preorder(f.ast) {
			byText := false
			switch n := n.(type) {
			case *ast.CallExpr:
				_, x, name := callOf(n)
				byText = x != nil && isImport(x, "strings") && name != "Join" && slices.ContainsFunc(n.Args, isErrorText)
			case *ast.BinaryExpr:
				byText = (n.Op == token.EQL || n.Op == token.NEQ) && (isErrorText(n.X) || isErrorText(n.Y))
			}
			if byText {
				found = append(found, tr.at(f, n, "decides by the text of an error: use errors.Is, errors.AsType or a status code"))
			}
		}
	}
	return found
}

func isErrorText(e ast.Expr) bool {
	call, _, name := callOf(e)
	return call != nil && name == "Error" && len(call.Args) == 0
}
