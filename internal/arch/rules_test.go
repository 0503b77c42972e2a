// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// rules is every rule that looks at the tree.
var rules = []struct {
	name  string
	check func(*tree) []finding
}{
	{"imports", checkImports},
	{"budgets", checkBudgets},
	{"package docs", checkPackageDocs},
	{"licence", checkLicence},
	{"places", checkPlaces},
	{"state", checkState},
	{"bans", checkBans},
	{"waits", checkWaits},
	{"logs", checkLogs},
	{"log documents", checkLogDocs},
	{"errors", checkErrors},
	{"tests", checkTests},
	{"purity", checkPurity},
	{"words", checkWords},
	{"dependencies", checkDependencies},
}

func TestRules(t *testing.T) {
	tr := loadRepository(t)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			found := r.check(tr)
			slices.SortFunc(found, func(a, b finding) int {
				return cmp.Or(strings.Compare(a.path, b.path), a.line-b.line)
			})
			for _, f := range found {
				t.Error(f)
			}
		})
	}
}
