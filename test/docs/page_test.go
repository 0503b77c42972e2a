// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// page is a document. Lines are kept by number, so that what is wrong can be
// named: prose has empty lines where the fences are, fences the other way round.
type page struct {
	name          string // from the root
	prose, fenced []string
	blocks        []block
}

// block is what stands in one fence.
type block struct {
	line     int // of its first line, from 1
	language string
	text     string
}

func read(t *testing.T, name string) *page {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(kit.Root(), name))
	if err != nil {
		t.Fatal(err)
	}
	return parse(name, string(b))
}

func parse(name, text string) *page {
	p := &page{name: name}
	inside, fence := false, ""
	for i, line := range strings.Split(text, "\n") {
		bare := strings.TrimSpace(line)
		switch {
		case !inside && strings.HasPrefix(bare, "```"):
			language := strings.TrimLeft(bare, "`")
			inside, fence = true, bare[:len(bare)-len(language)]
			p.blocks = append(p.blocks, block{line: i + 2, language: language})
			p.prose, p.fenced = append(p.prose, ""), append(p.fenced, "")
		case inside && bare == fence:
			inside = false
			p.prose, p.fenced = append(p.prose, ""), append(p.fenced, "")
		case inside:
			last := &p.blocks[len(p.blocks)-1]
			last.text += line + "\n"
			p.prose, p.fenced = append(p.prose, ""), append(p.fenced, line)
		default:
			p.prose, p.fenced = append(p.prose, line), append(p.fenced, "")
		}
	}
	return p
}

// notOurs are directories with other people's pages.
var notOurs = []string{".git", ".tools", "node_modules", "target", "bin", "dist", "testdata"}

// pages returns every document of the tree.
func pages(t *testing.T) []*page {
	t.Helper()
	var list []*page
	err := filepath.WalkDir(kit.Root(), func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(notOurs, d.Name()):
			return filepath.SkipDir
		case d.Type().IsRegular() && filepath.Ext(path) == ".md":
			name, err := filepath.Rel(kit.Root(), path)
			if err == nil {
				list = append(list, read(t, filepath.ToSlash(name)))
			}
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 10 {
		t.Fatalf("found %d pages: is this the repository?", len(list))
	}
	return list
}

var (
	codeSpan = regexp.MustCompile("`[^`]*`")
	heading  = regexp.MustCompile(`^#{1,6} +(.*?)\s*$`)
	linkText = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	notSlug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns the anchors of a page's headings, as GitHub makes them.
func (p *page) anchors() map[string]bool {
	found := map[string]bool{}
	for _, line := range p.prose {
		m := heading.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		text := linkText.ReplaceAllString(m[1], "$1")
		slug := strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(text), ""), " ", "-")
		for n, unique := 1, slug; ; n++ {
			if !found[unique] {
				found[unique] = true
				break
			}
			unique = fmt.Sprintf("%s-%d", slug, n)
		}
	}
	return found
}
