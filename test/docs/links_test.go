// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

var link = regexp.MustCompile(`\]\(([^()\s]+)\)`)

// TestLinks follows every link that stays in the repository, to the file and
// to the heading.
func TestLinks(t *testing.T) {
	list := pages(t)
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(kit.Root(), filepath.FromSlash(name)))
		return err == nil
	}
	count := 0
	for _, p := range list {
		n, dead := p.deadLinks(list, exists)
		count += n
		for _, d := range dead {
			t.Error(d)
		}
	}
	if count < 50 {
		t.Errorf("found %d links: the pages have more", count)
	}
}

func (p *page) deadLinks(list []*page, exists func(string) bool) (count int, dead []string) {
	for i, line := range p.prose {
		for _, m := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, "code"), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			count++
			file, anchor, _ := strings.Cut(m[1], "#")
			target := p
			name := path.Join(path.Dir(p.name), file)
			if file != "" {
				at := slices.IndexFunc(list, func(q *page) bool { return q.name == name })
				switch {
				case !exists(name):
					dead = append(dead, fmt.Sprintf("%s:%d: %s: there is no %s", p.name, i+1, m[1], name))
					continue
				case at < 0 && anchor != "":
					dead = append(dead, fmt.Sprintf("%s:%d: %s: no page, and therefore without headings", p.name, i+1, m[1]))
					continue
				case at >= 0:
					target = list[at]
				}
			}
			if anchor != "" && !target.anchors()[anchor] {
				dead = append(dead, fmt.Sprintf("%s:%d: %s: %s has no heading of that name", p.name, i+1, m[1], target.name))
			}
		}
	}
	return count, dead
}

func TestDeadLinks(t *testing.T) {
	p := parse("docs/a.md", "# A b: c\n# A b: c\n```\n[x](none.md)\n```\n[1](#a-b-c) [2](#a-b-c-1) [3](b.md#no) [4](../c/) `[5](none)` [6](none.md)\n[7](#a-b-c-2) [8](https://x/none)\n")
	list := []*page{p, parse("docs/b.md", "# B\n")}
	count, dead := p.deadLinks(list, func(name string) bool { return name == "docs/b.md" || name == "c" })
	want := []string{
		"docs/a.md:6: b.md#no: docs/b.md has no heading of that name",
		"docs/a.md:6: none.md: there is no docs/none.md",
		"docs/a.md:7: #a-b-c-2: docs/a.md has no heading of that name",
	}
	if count != 6 || !slices.Equal(dead, want) {
		t.Errorf("%d links, dead: %q", count, dead)
	}
}
