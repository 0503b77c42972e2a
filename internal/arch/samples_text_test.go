// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"slices"
	"strings"
)

// pureTree is every file of the list, with one of them replaced.
func pureTree(replaced, text string) []string {
	var files []string
	for _, p := range pure {
		content := "package a\nimport (\n\t\"errors\"\n\t\"time\"\n)\nfunc f(now time.Time) time.Time { return now.Add(time.Second) }\n"
		if p == replaced {
			content = text
		}
		files = append(files, p, content)
	}
	return files
}

// textSpecimens spells nothing whole that the rule about words forbids.
func textSpecimens() []specimen {
	const judge = "probe/judge.go"
	registry := strings.Join([]string{"registry", "npmjs", "org"}, ".")
	machine := "/" + "work/main"
	gomod := "module m\n\nrequire (\n\texample.com/a/v2 v2.0.0\n\texample.com/b v1.0.0 // indirect\n)\n"
	toolmod := "tool example.com/t/cmd/t\n\nrequire example.com/t v1.0.0 // indirect\n"
	manifest := "{\"devDependencies\": {\"@x/y\": \"1.0.0\", \"@our/own\": \"file:../own\"}}"
	cargo := "[package]\nname = \"p\"\n\n[dev-dependencies]\n# of = it\ncrate = \"1\"\nown = { path = \"..\" }\n\n[profile.dev]\ndebug = 0\n"
	setup := "case $1 in\n  race) echo gcc=gcc ld=binutils ;;\n  *) echo \"a=b\" >&2; exit 2 ;;\n"
	table := "| `example.com/a/v2` | for it | because |\n| `example.com/t` | for it | because |\n| `@x/y` | for it | because |\n" +
		"| `crate` | for it | because |\n| `gcc`, `binutils` | for it | because |\n| `tools/ours` | for it | because |\n| `py` | for it | because |\n"
	dependencies := func(doc string) []string {
		return []string{
			"go.mod", gomod, "tools/go.mod", toolmod, "some/package.json", manifest, "some/Cargo.toml", cargo,
			".ci/setup", setup, "tools/ours/main.c", "", "test/openshell/requirements.txt", "# it\npy==1.0\nother==2.0\n",
			"a/a.go", imports("a", "example.com/a/v2/sub"), dependencyDoc, doc,
		}
	}
	logged := func(statement, message string) []string {
		return []string{
			"agent/a.go", "package agent\n\nfunc f(l T) { " + statement + " }\n", "probe/p.go", "package probe\n\nfunc f(l T) { l.log.Info(`elsewhere`) }\n",
			operationsDoc, "# Page\n\n## What the logs say\n\n| message | what |\n| `" + message + "` (with `error`) | it |\n\n## More\n\n| `other` |\n",
		}
	}
	return []specimen{
		{"log documents", "missing", logged("l.log.Warn(`it broke`); l.log.Info(`fine`)", "fine"), "\"it broke\" is not in docs/operations.md"},
		{"log documents", "gone", logged("l.log.Debug(`fine`)", "fine"), "nobody logs \"fine\""},
		{"log documents", "elsewhere", logged("l.log.Log(c, level, message); l.log.Info(`fine`)", "fine"), "nobody can search for it"},
		{"log documents", "good", logged("l.log.Log(c, level, `fine`)", "fine"), ""},

		{"purity", "clock", pureTree(judge, body(`"time"`, "time.Now()")), "time.Now: a decision is told the time"},
		{"purity", "lock", pureTree(judge, body(`"sync"`, "")), "imports sync"},
		{"purity", "wire", pureTree(judge, body(`"google.golang.org/grpc/codes"`, "")), "imports google.golang.org/grpc/codes"},
		{"purity", "goroutine", pureTree(judge, body(`"time"`, "go f()")), "belong to the loop around it"},
		{"purity", "channel", pureTree(judge, body(`"time"`, "<-c")), "belong to the loop around it"},
		{"purity", "gone", slices.Delete(pureTree("", ""), 0, 2), "does not exist: name its successor"},
		{"purity", "good", pureTree("", ""), ""},

		{"words", "registry", []string{"a.md", "one\nfrom https://" + registry + "/x\n"}, "a.md:2: " + registry},
		{"words", "registry in a lock file", []string{"tools/package-lock.json", "\"" + strings.ToUpper(registry) + "\""}, "a registry is the business"},
		{"words", "machine", []string{"a.md", "see " + machine}, "a path of one machine"},
		{"words", "machine at the start", []string{"a.sh", machine + "/x\n"}, "a path of one machine"},
		{"words", "promise", []string{"a.go", "package a // " + todo + ": more\n"}, "an unkept promise"},
		{"words", "good", []string{
			"a.md", "network" + machine + " .github/workflows homework/ mktemp.XXXXXX todo",
			"go.sum", "h1:" + todo + "+" + machine + "=",
		}, ""},

		{"dependencies", "module", dependencies(strings.Replace(table, "/a/v2", "/b", 1)), "no line for example.com/a/v2"},
		{"dependencies", "tool", dependencies(strings.Replace(table, "/t`", "/b`", 1)), "no line for example.com/t/cmd/t"},
		{"dependencies", "npm", dependencies(strings.Replace(table, "| `@x/y`", "| @x/y", 1)), "no line for @x/y"},
		{"dependencies", "no reason", dependencies(strings.Replace(table, "because", "", 1)), "no line for example.com/a/v2"},
		{"dependencies", "gone", dependencies(table + "| `example.com/gone` | for it | because |\n"), "nothing requires any more"},
		{"dependencies", "npm gone", dependencies(table + "| `@x/gone` | for it | because |\n"), "nothing requires any more"},
		{"dependencies", "crate", dependencies(strings.Replace(table, "| `crate`", "| crate", 1)), "no line for crate"},
		{"dependencies", "Debian", dependencies(strings.Replace(table, ", `binutils`", "", 1)), "no line for binutils"},
		{"dependencies", "plain name gone", dependencies(table + "| `nginx` | for it | because |\n"), "nothing requires any more"},
		{"dependencies", "good", dependencies(table), ""},
	}
}
