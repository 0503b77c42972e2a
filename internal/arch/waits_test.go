// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"go/ast"
	"go/token"
	"strings"
)

// checkWaits finds sleeps in disguise: a receive from time.After that stands
// alone cannot be cut short. Tests may: in a bubble it is how time passes.
func checkWaits(tr *tree) []finding {
	var found []finding
	for _, f := range tr.goFiles() {
		if f.isTest || f.importName("time") == "" {
			continue
		}
		choices := map[ast.Stmt]bool{}
		for c := range nodes[*ast.CommClause](f.ast) {
			choices[c.Comm] = true
		}
		for stmt := range nodes[*ast.ExprStmt](f.ast) {
			receive, ok := stmt.X.(*ast.UnaryExpr)
			if ok && receive.Op == token.ARROW && !choices[stmt] && f.calls(receive.X, "time", "After") {
				found = append(found, tr.at(f, stmt, "a sleep in disguise: select on the context too"))
			}
		}
	}
	return found
}

var logMethods = map[string]int{ // method -> index of the message
	"Debug": 0, "Info": 0, "Warn": 0, "Error": 0,
	"DebugContext": 1, "InfoContext": 1, "WarnContext": 1, "ErrorContext": 1,
	"Log": 2, "LogAttrs": 2,
}

// checkLogs wants constant messages from whatever is called a log or a logger.
func checkLogs(tr *tree) []finding {
	var found []finding
	for _, f := range tr.goFiles() {
		for n := range nodes[*ast.CallExpr](f.ast) {
			call, x, name := callOf(n)
			at, isLog := logMethods[name]
			if call == nil || !isLog || !isLogger(x) || len(call.Args) <= at {
				continue
			}
			if !isConstant(call.Args[at]) {
				found = append(found, tr.at(f, call, "the message is built at run time: keep it constant and put the rest into attributes"))
			}
		}
	}
	return found
}

// isLogger goes by the last name of x: log, logger, s.log, c.Logger …
func isLogger(x ast.Expr) bool {
	name := ""
	switch x := x.(type) {
	case *ast.Ident:
		name = x.Name
	case *ast.SelectorExpr:
		name = x.Sel.Name
	}
	name = strings.ToLower(name)
	return strings.HasSuffix(name, "log") || strings.HasSuffix(name, "logger")
}

// isConstant holds for literals, names, and sums of them.
func isConstant(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit, *ast.Ident, *ast.SelectorExpr:
		return true
	case *ast.BinaryExpr:
		return isConstant(e.X) && isConstant(e.Y)
	}
	return false
}
