// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"
)

// word is a pattern that must not be in the tree. The pieces of a pattern are
// put together at run time, so that this file does not breach its own rule.
type word struct {
	hints   []string // one of them, in lower case, is in every match
	pattern *regexp.Regexp
	text    bool // for text that people write; lock files are chance
	reason  string
}

var words = []word{
	anyOf("a registry is the business of whoever builds: name the package alone",
		"proxy.golang+org", "sum.golang+org", "registry.npmjs+org", "registry.yarnpkg+com",
		"pypi+org", "files.pythonhosted+org", "crates+io", "repo1.maven+org", "repo.maven.apache+org",
		"deb.debian+org", "security.debian+org", "snapshot.debian+org",
	),
	{
		[]string{"/" + "work"},
		regexp.MustCompile("(?m)(?:^|[\\s\"'`=:(\\[,])/" + "work(?:/|\\b)"),
		true, "a path of one machine",
	},
	{
		[]string{"to" + "do", "fix" + "me", "x" + "xx", "ha" + "ck"},
		regexp.MustCompile(`\b(?:TO` + `DO|FIX` + `ME|X` + `XX|HA` + `CK)\b`),
		true, "an unkept promise: do it, or file it where work is planned",
	},
}

// anyOf matches one of the names, in any case; a plus stands for a dot.
func anyOf(reason string, names ...string) word {
	w := word{reason: reason}
	quoted := make([]string, len(names))
	for i, n := range names {
		n = strings.ReplaceAll(n, "+", ".")
		w.hints, quoted[i] = append(w.hints, n), regexp.QuoteMeta(n)
	}
	w.pattern = regexp.MustCompile(`(?i)\b(?:` + strings.Join(quoted, "|") + `)\b`)
	return w
}

var lockFiles = []string{"go.sum", "package-lock.json", "Cargo.lock"}

// checkWords searches every text file.
func checkWords(tr *tree) []finding {
	var found []finding
	for _, f := range tr.files {
		lower := bytes.ToLower(f.text)
		for _, w := range words {
			hinted := slices.ContainsFunc(w.hints, func(h string) bool { return bytes.Contains(lower, []byte(h)) })
			if !hinted || w.text && slices.Contains(lockFiles, path.Base(f.path)) {
				continue
			}
			for _, at := range w.pattern.FindAllIndex(f.text, -1) {
				line := bytes.Count(f.text[:at[0]], []byte("\n")) + 1
				found = append(found, finding{f.path, line, string(bytes.TrimSpace(f.text[at[0]:at[1]])) + ": " + w.reason})
			}
		}
	}
	return found
}
