// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what is seen into the stories")

// TestScenarios plays every story.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d stories, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			told := string(b)
			seen := play(t, told)
			switch {
			case seen == told:
			case *update:
				if err := os.WriteFile(file, []byte(seen), 0o644); err != nil {
					t.Fatal(err)
				}
			default:
				t.Error(difference(told, seen))
			}
		})
	}
}

// play plays a story and returns it with what is seen now.
func play(t *testing.T, told string) string {
	var out strings.Builder
	s := newStage(t, &out)
	for number, line := range strings.Split(strings.TrimRight(told, "\n"), "\n") {
		if strings.HasPrefix(line, ">") {
			continue
		}
		out.WriteString(line + "\n")
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		s.line = number + 1
		for _, line := range repeated(t, line) {
			if err := s.do(line); err != nil {
				t.Fatalf("line %d: %q: %v", s.line, line, err)
			}
			s.look()
		}
	}
	return out.String()
}

// repeated returns the lines that a line stands for: "repeat 3 times: a; b" is
// a b a b a b.
func repeated(t *testing.T, line string) (lines []string) {
	head, body, ok := strings.Cut(line, " times: ")
	count, isRepeat := strings.CutPrefix(head, "repeat ")
	if !ok || !isRepeat {
		return []string{line}
	}
	n, err := strconv.Atoi(count)
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	for range n {
		for part := range strings.SplitSeq(body, ";") {
			lines = append(lines, strings.TrimSpace(part))
		}
	}
	return lines
}

// difference shows the first lines that differ.
func difference(told, seen string) string {
	a, b := strings.Split(told, "\n"), strings.Split(seen, "\n")
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	from := max(0, i-3)
	show := func(lines []string) string {
		return strings.Join(lines[min(from, len(lines)):min(i+5, len(lines))], "\n    ")
	}
	return "the story goes another way (-update, if that is right)\n  told:\n    " + show(a) + "\n  seen:\n    " + show(b)
}
