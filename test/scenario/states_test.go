// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

const statesDoc = "../../docs/states.md"

var link = regexp.MustCompile(`\]\(([^)#]+)\)`)

// TestStatesDocument holds docs/states.md to the code and to the stories: it
// has every word that a client can be told, and every story.
func TestStatesDocument(t *testing.T) {
	b, err := os.ReadFile(statesDoc)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, word := range vocabulary() {
		if !regexp.MustCompile(`\b` + word + `\b`).MatchString(text) {
			t.Errorf("%s does not have %s", statesDoc, word)
		}
	}
	linked := map[string]bool{}
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		target := filepath.Join(filepath.Dir(statesDoc), m[1])
		if _, err := os.Stat(target); err != nil {
			t.Errorf("%s: %v", statesDoc, err)
		}
		linked[filepath.Base(target)] = true
	}
	stories, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(stories) == 0 {
		t.Fatalf("%d stories, %v", len(stories), err)
	}
	for _, story := range stories {
		if !linked[filepath.Base(story)] {
			t.Errorf("%s does not say what %s shows", statesDoc, story)
		}
	}
	for _, trap := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 17, 18, 19, 20, 30} {
		if row := fmt.Sprintf("\n| T%02d |", trap); !strings.Contains(text, row) {
			t.Errorf("%s has no row for T%02d", statesDoc, trap)
		}
	}
}

// vocabulary is every word that an answer, an attempt or a phase can have.
func vocabulary() (words []string) {
	for r := health.SandboxStopped; r.String() != "Unknown"; r++ {
		words = append(words, r.String())
	}
	for r := probe.OK; r.String() != "Unknown"; r++ {
		words = append(words, r.String())
	}
	for _, s := range []probe.State{probe.Unknown, probe.Healthy, probe.Unhealthy} {
		words = append(words, s.String())
	}
	for n, name := range openshellv1.SandboxPhase_name {
		if n != 0 {
			words = append(words, strings.TrimPrefix(name, "SANDBOX_PHASE_"))
		}
	}
	return words
}

// TestEveryReasonHasAStory: a client sees each state and each reason in some
// story.
func TestEveryReasonHasAStory(t *testing.T) {
	stories, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, story := range stories {
		b, err := os.ReadFile(story)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if !strings.HasPrefix(line, ">") {
				continue
			}
			for _, word := range strings.Fields(line) {
				seen[word] = true
			}
		}
	}
	rare := map[string]bool{"DELETING": true, "Internal": true, "Suspended": true} // no story takes long enough to see them
	for _, word := range vocabulary() {
		if !seen[word] && !rare[word] {
			t.Errorf("no story has %s", word)
		}
	}
}
