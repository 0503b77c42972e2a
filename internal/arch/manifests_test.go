// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"encoding/json"
	"regexp"
	"strings"
)

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

// npmPackages returns what a package.json names, but for directories of this
// repository.
func npmPackages(text string) ([]string, error) {
	var manifest struct {
		Dependencies, DevDependencies map[string]string
	}
	if err := json.Unmarshal([]byte(text), &manifest); err != nil {
		return nil, err
	}
	var list []string
	for _, group := range []map[string]string{manifest.Dependencies, manifest.DevDependencies} {
		for name, version := range group {
			if !strings.HasPrefix(version, "file:") {
				list = append(list, name)
			}
		}
	}
	return list, nil
}

// cargoPackages returns what a Cargo.toml names, one a line, but for directories
// of this repository.
func cargoPackages(text string) []string {
	var list []string
	inside := false
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(line, " = ")
		switch {
		case strings.HasPrefix(line, "["):
			inside = strings.HasSuffix(strings.TrimSpace(line), "dependencies]")
		case inside && ok && !strings.HasPrefix(line, "#") && !strings.Contains(value, "path = "):
			list = append(list, name)
		}
	}
	return list
}

var (
	setupGroup   = regexp.MustCompile(`(?m)^ *[a-z0-9]+\) echo ([^;\n]*) ;;$`)
	setupPackage = regexp.MustCompile(`=([^ ]+)`)
	pinned       = regexp.MustCompile(`(?m)^([^#=\s]+)==`)
)

// debianPackages returns the packages of all groups of .ci/setup.
func debianPackages(text string) []string {
	var list []string
	for _, group := range setupGroup.FindAllStringSubmatch(text, -1) {
		for _, pair := range setupPackage.FindAllStringSubmatch(group[1], -1) {
			list = append(list, pair[1])
		}
	}
	return list
}

// pypiPackages returns what a requirements.txt pins.
func pypiPackages(text string) []string {
	var list []string
	for _, m := range pinned.FindAllStringSubmatch(text, -1) {
		list = append(list, m[1])
	}
	return list
}
