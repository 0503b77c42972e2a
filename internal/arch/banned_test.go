// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"go/ast"
	"path"
	"slices"
	"strings"
)

// ban is a name of another package that is not to be used, or, with no names,
// a package that is not to be imported.
type ban struct {
	pkg     string
	names   string // separated by spaces
	allowed func(f *file) bool
	reason  string
}

// exit is allowed in TestMain too: a test binary that plays another role (a
// process 1, a parent) ends there with that role's status.
const exit = "Exit"

var bans = []ban{
	{"time", "Sleep", maySleep, "a sleep guesses: wait for the event, or for fake time in testkit.Bubble"},
	{"testing/synctest", "", in("internal/testkit"), "use testkit.Bubble, which empties the timer pools that a second bubble would die of"},

	{"net/http", "DefaultServeMux Handle HandleFunc ListenAndServe ListenAndServeTLS", never, "the default mux is open to every package that is linked: make a mux and a Server"},
	{"net/http", "DefaultClient DefaultTransport Get Head Post PostForm", never, "the default client has no deadline and follows proxies and redirects: make a Client"},
	{"net/http/pprof", "_", never, "the blank import registers on the default mux: mount its handlers on the ops mux"},
	{"expvar", "", never, "it registers on the default mux; metrics have their own registry"},

	{"github.com/prometheus/client_golang/prometheus", "DefaultRegisterer DefaultGatherer MustRegister Register Unregister", never, defaultRegistry},
	{"github.com/prometheus/client_golang/prometheus/promauto", "", never, defaultRegistry},
	{"github.com/prometheus/client_golang/prometheus/promhttp", "Handler", never, defaultRegistry},

	{"log", "", never, "logs are structured: take a *slog.Logger"},
	{"log/slog", "Default SetDefault Debug Info Warn Error Log LogAttrs DebugContext InfoContext WarnContext ErrorContext", never, "the default logger is global state: take a *slog.Logger"},
	{"os", exit, isMain, "only main ends the process; return an error or a status"},
	{"fmt", "Print Printf Println", isPrinter, "standard output belongs to the commands: take an io.Writer or a *slog.Logger"},
	{"context", "Background " + todo, isContextRoot, "take the caller's context; the few roots are listed in internal/arch with their reasons"},
	{"os/exec", "", mayStartProcesses, "the agent may be process 1, whose reaper collects every child: start them through agent/command"},
	{"math/rand", "", never, "use math/rand/v2, or crypto/rand for anything that must not be guessed"},
}

const defaultRegistry = "the default registry is global state: the registry is an argument"

const todo = "TO" + "DO" // whole, it would breach the rule about words

// contextRoots are the files outside commands and tests that may begin a context,
// and why none of their callers has one that fits.
var contextRoots = map[string]string{
	"gateway/gateway.go": "a process that ended by itself has no caller",
}

func never(*file) bool { return false }

func in(dir string) func(*file) bool {
	return func(f *file) bool { return f.under(dir) }
}

// maySleep: testkit makes fake time pass, and a suite on real binaries may
// poll, in the one helper made for it.
func maySleep(f *file) bool {
	return f.path == "internal/testkit/testkit.go" || f.under("test") && slices.Contains([]string{"poll.go", "poll_test.go"}, path.Base(f.path))
}

func isMain(f *file) bool {
	return f.under("cmd", "examples", "test") && path.Base(f.path) == "main.go" && f.ast.Name.Name == "main"
}

// isPrinter: a test prints as an Example, or as the process whose part its
// binary plays.
func isPrinter(f *file) bool { return f.isTest || f.under("cmd", "examples", "test") }

func mayStartProcesses(f *file) bool {
	return f.isTest || f.under("agent/command") || !f.under("agent", "probe", "mux", "report", "readiness")
}

func isContextRoot(f *file) bool {
	return f.isTest || f.under("cmd", "examples", "test") || contextRoots[f.path] != ""
}

// checkBans finds uses of banned names and imports of banned packages.
func checkBans(tr *tree) []finding {
	var found []finding
	for _, f := range tr.goFiles() {
		for _, b := range bans {
			if b.allowed(f) {
				continue
			}
			for name, target := range f.imports {
				switch {
				case target != b.pkg:
				case b.names == "", b.names == "_" && name == "_":
					found = append(found, tr.at(f, f.ast, "imports %s: %s", b.pkg, b.reason))
				default:
					found = append(found, tr.uses(f, name, b)...)
				}
			}
		}
		for _, spec := range f.ast.Imports {
			if spec.Name != nil && spec.Name.Name == "." {
				found = append(found, tr.at(f, spec, "imports %s into its own names: a reader cannot tell whose they are", spec.Path.Value))
			}
		}
	}
	return found
}

// uses finds the selectors name.X of a file where X is banned and name is the
// import, not a variable that hides it.
func (tr *tree) uses(f *file, name string, b ban) []finding {
	var found []finding
	for _, decl := range f.ast.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && b.names == exit && f.isTest && fn.Name.Name == "TestMain" {
			continue
		}
		for sel := range selectors(decl) {
			if isImport(sel.X, name) && slices.Contains(strings.Fields(b.names), sel.Sel.Name) {
				found = append(found, tr.at(f, sel, "%s.%s: %s", name, sel.Sel.Name, b.reason))
			}
		}
	}
	return found
}
