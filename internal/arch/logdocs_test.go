// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"go/ast"
	"regexp"
	"strconv"
	"strings"
)

const operationsDoc = "docs/operations.md"

var inBackticks = regexp.MustCompile("`([^`\n]+)`")

// checkLogDocs wants a word in docs/operations.md about each message that a
// daemon logs at info or above; and none about a message that is gone.
func checkLogDocs(tr *tree) []finding {
	_, table, _ := strings.Cut(tr.read(operationsDoc), "\n## What the logs say\n")
	table, _, _ = strings.Cut(table, "\n## ")
	documented := map[string]bool{} // whether it is logged
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 2 {
			continue
		}
		messages := regexp.MustCompile(`\(with [^)]*\)`).ReplaceAllString(cells[1], "")
		for _, m := range inBackticks.FindAllStringSubmatch(messages, -1) {
			documented[m[1]] = false
		}
	}
	var found []finding
	for _, f := range tr.goFiles() {
		if f.isTest || !f.under("agent", "gateway", "readiness", "cmd/sandbox-agent", "cmd/sandbox-gateway") {
			continue
		}
		for n := range nodes[*ast.CallExpr](f.ast) {
			call, x, name := callOf(n)
			at, isLog := logMethods[name]
			if call == nil || !isLog || !isLogger(x) || len(call.Args) <= at || strings.HasPrefix(name, "Debug") {
				continue
			}
			literal, ok := call.Args[at].(*ast.BasicLit)
			if !ok {
				found = append(found, tr.at(f, call, "the message is not written where it is logged: nobody can search for it"))
				continue
			}
			message, err := strconv.Unquote(literal.Value)
			if _, ok := documented[message]; err != nil || !ok {
				found = append(found, tr.at(f, call, "%q is not in %s: what does it mean, what is to be done?", message, operationsDoc))
				continue
			}
			documented[message] = true
		}
	}
	for message, logged := range documented {
		if !logged {
			found = append(found, finding{operationsDoc, 1, "nobody logs " + strconv.Quote(message)})
		}
	}
	return found
}
