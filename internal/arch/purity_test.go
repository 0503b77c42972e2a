// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// pure is the core of each decision: functions of (state, event, now). One
// thin loop beside each has the clock, the goroutine and the socket.
var pure = []string{
	"internal/backoff/backoff.go",
	"probe/head.go", "probe/judge.go", "probe/plan.go", "probe/planner.go", "probe/quick.go",
	"report/acks.go", "report/pacer.go",
	"mux/redial.go",
	"agent/vigil.go",
	"gateway/health/evaluate.go", "gateway/health/phase.go", "gateway/health/proof.go",
	"gateway/session/registry.go",
	"gateway/route/host.go", "gateway/route/origin.go",
	"sdk/go/clientfile.go", "sdk/go/layers.go",
}

// impure packages bring a clock that runs, a lock, a wire or a log.
var impure = []string{"context", "log/slog", "net", "net/http", "os", "sync", "sync/atomic", "syscall"}

// clock is what package time does beside being arithmetic.
var clock = []string{"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"}

// checkPurity holds the files of the list pure.
func checkPurity(tr *tree) []finding {
	var found []finding
	for _, p := range pure {
		at := slices.IndexFunc(tr.files, func(f *file) bool { return f.path == p })
		if at < 0 {
			if tr.lacks(p) {
				found = append(found, finding{p, 1, "is listed as pure in internal/arch and does not exist: name its successor"})
			}
			continue
		}
		f := tr.files[at]
		for _, target := range f.imports {
			if slices.Contains(impure, target) || strings.HasPrefix(target, "google.golang.org/grpc") {
				found = append(found, tr.at(f, f.ast, "imports %s: a decision is a function of (state, event, now)", target))
			}
		}
		for sel := range selectors(f.ast) {
			if isImport(sel.X, f.importName("time")) && slices.Contains(clock, sel.Sel.Name) {
				found = append(found, tr.at(f, sel, "time.%s: a decision is told the time", sel.Sel.Name))
			}
		}
		for n := range ast.Preorder(f.ast) {
			switch n := n.(type) {
			case *ast.GoStmt, *ast.SelectStmt, *ast.SendStmt, *ast.ChanType:
				found = append(found, tr.at(f, n, "goroutines and channels belong to the loop around it"))
			case *ast.UnaryExpr:
				if n.Op == token.ARROW {
					found = append(found, tr.at(f, n, "goroutines and channels belong to the loop around it"))
				}
			}
		}
	}
	return found
}
