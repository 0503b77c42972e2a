// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

const dependencyDoc = "docs/dependencies.md"

// dependencyRow is a line of the tables in docs/dependencies.md: what it is,
// what for, why it and not another.
var dependencyRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|[^|]*\\w[^|]*\\|[^|]*\\w[^|]*\\|$")

// checkDependencies wants a line for each module that the code imports, each
// tool of tools/go.mod and each npm package of tools and of the TypeScript SDK;
// and no line for a module that is gone.
func checkDependencies(tr *tree) []finding {
	var found []finding
	documented := map[string]bool{}
	for _, m := range dependencyRow.FindAllStringSubmatch(tr.read(dependencyDoc), -1) {
		documented[m[1]] = true
	}
	required := goModBlock(tr.read("go.mod"), "require")
	tools := goModBlock(tr.read("tools/go.mod"), "tool")
	var npm []string
	for _, manifest := range []string{"tools/package.json", "sdk/typescript/package.json"} {
		packages, err := npmPackages(tr.read(manifest))
		if err != nil {
			return []finding{{manifest, 1, err.Error()}}
		}
		npm = append(npm, packages...)
	}
	for _, name := range slices.Concat(tr.direct(required), tools, npm) {
		if !coveredBy(documented, name) {
			found = append(found, finding{dependencyDoc, 1, "no line for " + name + ": what for, and why it and not another?"})
		}
	}
	for name := range documented {
		isNPM := strings.HasPrefix(name, "@")
		gone := isModule(name) && !slices.ContainsFunc(slices.Concat(required, tools), func(r string) bool { return covers(name, r) })
		if isNPM && !slices.Contains(npm, name) || !isNPM && gone {
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

// goModBlock returns the first words of the lines of a go.mod directive.
func goModBlock(text, directive string) []string {
	var list []string
	inside := false
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == ")":
			inside = false
		case words[0] == directive && len(words) > 1 && words[1] == "(":
			inside = true
		case words[0] == directive && len(words) > 1:
			list = append(list, words[1])
		case inside:
			list = append(list, words[0])
		}
	}
	return list
}

func npmPackages(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	var manifest struct {
		Dependencies, DevDependencies map[string]string
	}
	if err := json.Unmarshal([]byte(text), &manifest); err != nil {
		return nil, err
	}
	var list []string
	for _, group := range []map[string]string{manifest.Dependencies, manifest.DevDependencies} {
		for name := range group {
			list = append(list, name)
		}
	}
	return list, nil
}
