// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"maps"
	"slices"
	"testing"
)

func TestCollectFollowsImportsOnce(t *testing.T) {
	outside := func(name string, imports ...string) listed {
		return listed{ImportPath: name, Imports: imports, Module: &struct{ Path string }{name}}
	}
	all := map[string]listed{
		"cmd": {ImportPath: "cmd", Imports: []string{"fmt", "x"}, Module: &struct{ Path string }{module}},
		"fmt": {ImportPath: "fmt"},
		"x":   outside("x", "y", "fmt"),
		"y":   outside("y", "x"),
		"z":   outside("z"),
	}
	modules := map[string]bool{}
	collect(all, "cmd", map[string]bool{}, modules)
	if got := slices.Sorted(maps.Keys(modules)); !slices.Equal(got, []string{"x", "y"}) {
		t.Errorf("collect gave %v, want [x y]", got)
	}
}

func TestCompareLinked(t *testing.T) {
	got := compareLinked([]string{"a", "new"}, []string{"a", "old"})
	want := []string{"links new, which nobody reviewed: is it worth its weight there?", "no longer links old"}
	if !slices.Equal(got, want) {
		t.Errorf("compareLinked gave %q, want %q", got, want)
	}
}
