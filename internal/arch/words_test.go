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

// word is a pattern that must not be in the tree. The patterns are put
// together from pieces, so that this file does not breach its own rule.
type word struct {
	pattern *regexp.Regexp
	text    bool // for text that people write; lock files are chance
	reason  string
}

var words = []word{
	{anyOf(
		"proxy.golang+org", "sum.golang+org", "registry.npmjs+org", "registry.yarnpkg+com",
		"pypi+org", "files.pythonhosted+org", "crates+io", "repo1.maven+org", "repo.maven.apache+org",
		"deb.debian+org", "security.debian+org", "snapshot.debian+org",
	), false, "a registry is the business of whoever builds: name the package alone"},
	{regexp.MustCompile("(?m)(?:^|[\\s\"'`=:(\\[,])/" + "work(?:/|\\b)"), true, "a path of one machine"},
	{regexp.MustCompile(`\b(?:TO` + `DO|FIX` + `ME|X` + `XX|HA` + `CK)\b`), true, "an unkept promise: do it, or file it where work is planned"},
}

// anyOf matches one of the names, in any case; a plus stands for a dot.
func anyOf(names ...string) *regexp.Regexp {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = regexp.QuoteMeta(strings.ReplaceAll(n, "+", "."))
	}
	return regexp.MustCompile(`(?i)\b(?:` + strings.Join(quoted, "|") + `)\b`)
}

var lockFiles = []string{"go.sum", "package-lock.json", "Cargo.lock"}

// checkWords searches every text file.
func checkWords(tr *tree) []finding {
	var found []finding
	for _, f := range tr.files {
		for _, w := range words {
			if w.text && slices.Contains(lockFiles, path.Base(f.path)) {
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
