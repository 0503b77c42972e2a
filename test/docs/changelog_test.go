// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"regexp"
	"strings"
	"testing"
)

// inward is what means something to those who work on this repository only: ids
// of traps and decisions, commits, directories of code.
var inward = regexp.MustCompile(`\b[TD]\d{2}\b|\b[0-9a-f]{7,40}\b|\b(internal|gateway|agent|test)/[a-z]`)

// The changelog is for users: each entry has its group, and none speaks of how
// the code is made.
func TestChangelog(t *testing.T) {
	const name = "CHANGELOG.md"
	version, group, entries := "", "", 0
	for i, line := range read(t, name).prose {
		if word := inward.FindString(line); word != "" {
			t.Errorf("%s:%d: %q says nothing to a user", name, i+1, word)
		}
		switch {
		case strings.HasPrefix(line, "## "):
			version, group = line, ""
		case strings.HasPrefix(line, "### "):
			group = line
		case strings.HasPrefix(line, "- "):
			entries++
			if version == "" || group == "" {
				t.Errorf("%s:%d: an entry without a version and a group", name, i+1)
			}
		}
	}
	if entries == 0 {
		t.Error("no entries: this test has looked at nothing")
	}
}
