// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

const dependencyDoc = "docs/dependencies.md"

// dependencyRow is a line of the tables in docs/dependencies.md: what it is or
// they are, what for, why it and not another.
var dependencyRow = regexp.MustCompile("(?m)^\\| ((?:`[^`]+`(?:, )?)+) \\|[^|]*\\w[^|]*\\|[^|]*\\w[^|]*\\|$")

// checkDependencies wants a line for each module that the code imports, each
// tool of tools/go.mod, each package of a package.json or a Cargo.toml, and each
// one that .ci/setup installs; and no line for what is gone.
func checkDependencies(tr *tree) []finding {
	var found []finding
	documented := map[string]bool{}
	for _, row := range dependencyRow.FindAllStringSubmatch(tr.read(dependencyDoc), -1) {
		for _, name := range inBackticks.FindAllStringSubmatch(row[1], -1) {
			documented[name[1]] = true
		}
	}
	required := goModBlock(tr.read("go.mod"), "require")
	tools := goModBlock(tr.read("tools/go.mod"), "tool")
	others := debianPackages(tr.read(".ci/setup"))
	for _, f := range tr.files {
		switch path.Base(f.path) {
		case "package.json":
			packages, err := npmPackages(string(f.text))
			if err != nil {
				return []finding{{f.path, 1, err.Error()}}
			}
			others = append(others, packages...)
		case "Cargo.toml":
			others = append(others, cargoPackages(string(f.text))...)
		}
	}
	wanted := slices.Concat(tr.direct(required), tools, others)
	slices.Sort(wanted)
	for _, name := range slices.Compact(wanted) {
		if !coveredBy(documented, name) {
			found = append(found, finding{dependencyDoc, 1, "no line for " + name + ": what for, and why it and not another?"})
		}
	}
	known := slices.Concat(required, tools, others, pypiPackages(tr.read("test/openshell/requirements.txt")))
	for name := range documented {
		ours := tr.within(name) // a tool that is in this repository
		if !ours && !slices.ContainsFunc(known, func(k string) bool { return covers(name, k) }) {
			found = append(found, finding{dependencyDoc, 1, "has a line for " + name + ", which nothing requires any more"})
		}
	}
	return found
}

// coveredBy reports whether name, or what it is a part of, has a line.
func coveredBy(documented map[string]bool, name string) bool {
	for d := range documented {
		if covers(d, name) {
			return true
		}
	}
	return false
}

func (tr *tree) read(p string) string {
	for _, f := range tr.files {
		if f.path == p {
			return string(f.text)
		}
	}
	return ""
}

// within reports whether a directory has files.
func (tr *tree) within(dir string) bool {
	return slices.ContainsFunc(tr.files, func(f *file) bool { return strings.HasPrefix(f.path, dir+"/") })
}

// direct returns the required modules that some file imports. The comments
// "// indirect" of go.mod say the same once go mod tidy has run.
func (tr *tree) direct(required []string) []string {
	var list []string
	for _, f := range tr.allGoFiles() {
		for _, target := range f.imports {
			best := ""
			for _, r := range required {
				if covers(r, target) && len(r) > len(best) {
					best = r
				}
			}
			if best != "" && !slices.Contains(list, best) {
				list = append(list, best)
			}
		}
	}
	return list
}
