// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// order is the lattice, expanded over the packages that exist.
type order struct {
	names   map[string]string          // package -> the name of its clause
	may     map[string]map[string]bool // package -> packages it may import, closed
	modules map[string][]allowance     // outside module -> who may import it
}

type allowance struct {
	pattern   string
	testsOnly bool
}

// parseLattice reads the notation of the constant lattice.
func parseLattice(text string, names map[string]string) (*order, error) {
	o := &order{names: names, may: map[string]map[string]bool{}, modules: map[string][]allowance{}}
	packages := slices.Sorted(maps.Keys(names))
	for _, p := range packages {
		o.may[p] = map[string]bool{}
		if o.isHelper(p) {
			o.may[p][path.Dir(p)] = true
		}
	}
	for n, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		chain := strings.Split(line, "<")
		if len(chain) < 2 {
			return nil, fmt.Errorf("lattice line %d: %q has no <", n+1, line)
		}
		// Every pair, so that an element which no package matches yet does not
		// tear the chain.
		for i, upper := range chain {
			for _, lower := range chain[:i] {
				if err := o.edge(lower, upper, packages); err != nil {
					return nil, fmt.Errorf("lattice line %d: %w", n+1, err)
				}
			}
		}
	}
	return o, o.close(packages)
}

// edge adds "lower < upper", both lists of patterns.
func (o *order) edge(lower, upper string, packages []string) error {
	upper, testsOnly := strings.CutPrefix(upper, "t ")
	for _, low := range splitList(lower) {
		for _, up := range splitList(upper) {
			switch {
			case low == "" || up == "":
				return fmt.Errorf("an empty name")
			case isModule(up):
				return fmt.Errorf("%s is outside and cannot be held to an order", up)
			case isModule(low):
				o.modules[low] = append(o.modules[low], allowance{up, testsOnly})
			case testsOnly:
				return fmt.Errorf("<t is for outside modules; %s is ours", low)
			default:
				o.pairs(low, up, packages)
			}
		}
	}
	return nil
}

func (o *order) pairs(low, up string, packages []string) {
	for _, l := range packages {
		for _, u := range packages {
			below := l != u && matches(low, l) && matches(up, u)
			if below && !o.isHelper(l) && !(low == "*" && matches(up, l)) {
				o.may[u][l] = true
			}
		}
	}
}

// close makes the order transitive and refuses a circle.
func (o *order) close(packages []string) error {
	for _, k := range packages {
		for _, i := range packages {
			if !o.may[i][k] {
				continue
			}
			for j := range o.may[k] {
				o.may[i][j] = true
			}
		}
	}
	for _, p := range packages {
		if o.may[p][p] {
			return fmt.Errorf("the lattice has a circle through %s", p)
		}
	}
	return nil
}

func splitList(s string) []string {
	parts := strings.Split(s, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

func isModule(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return strings.Contains(first, ".") && first != "..."
}

// matches: x/... is what lies below x, * is everything.
func matches(pattern, pkg string) bool {
	if parent, below := strings.CutSuffix(pattern, "/..."); below {
		return strings.HasPrefix(pkg, parent+"/")
	}
	return pattern == "*" || pattern == pkg
}

// isHelper: mux/muxtest and its like help the tests of others.
func (o *order) isHelper(pkg string) bool {
	parent, has := o.names[path.Dir(pkg)]
	return has && path.Base(pkg) == parent+"test"
}

// covers reports whether pkg is name or lies below it; * covers everything.
func covers(name, pkg string) bool {
	return name == "*" || name == pkg || strings.HasPrefix(pkg, name+"/")
}

// allows reports whether the file may import a package of this module.
func (o *order) allows(f *file, target string) bool {
	if f.pkg == target || o.may[f.pkg][target] {
		return true
	}
	if !f.isTest && !f.under("test") {
		return false
	}
	if target == "internal/testkit" || f.under("test") && covers("test", target) {
		return true
	}
	parent := path.Dir(target)
	return o.isHelper(target) && (f.pkg == parent || o.may[f.pkg][parent])
}

// allowsOutside reports whether the file may import an outside package.
func (o *order) allowsOutside(f *file, target string) bool {
	for mod, list := range o.modules {
		if !covers(mod, target) {
			continue
		}
		return slices.ContainsFunc(list, func(a allowance) bool {
			return matches(a.pattern, f.pkg) && (f.isTest || !a.testsOnly)
		})
	}
	return false
}

// checkImports holds the lattice.
func checkImports(tr *tree) []finding {
	var found []finding
	names := map[string]string{}
	for dir, files := range tr.packages() {
		names[dir] = strings.TrimSuffix(files[0].ast.Name.Name, "_test")
	}
	o, err := parseLattice(lattice, names)
	if err != nil {
		return []finding{{"internal/arch/lattice_test.go", 1, err.Error()}}
	}
	for _, f := range tr.allGoFiles() {
		for _, spec := range f.ast.Imports {
			target := strings.Trim(spec.Path.Value, "`\"")
			inside, isOurs := strings.CutPrefix(target, module+"/")
			switch {
			case isOurs && !o.allows(f, inside):
				found = append(found, tr.at(f, spec, "%s must not import %s: %s", f.pkg, inside, reason(f.pkg, inside)))
			case !isOurs && isModule(target) && !o.allowsOutside(f, target):
				found = append(found, tr.at(f, spec, "%s must not import %s: %s", f.pkg, target, reason(f.pkg, target)))
			}
		}
	}
	return found
}

func reason(from, to string) string {
	for _, b := range because {
		if covers(b.from, from) && covers(b.to, to) {
			return b.reason
		}
	}
	return "the lattice in internal/arch has no such edge"
}
