// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// block is shell commands of a page, and the output that the page shows.
type block struct {
	line    int // of its first command
	command string
	shown   []string // nil: the page shows none
}

// provided are the lines that the test stands in for.
var provided = regexp.MustCompile(`(?m)^(make .*|sandbox-gateway serve.*|export PATH=\$PWD/bin:\$PATH)$`)

// parse returns the blocks of a page: a fence of sh, and the fence without a
// language that follows before the next heading or commands.
func parse(page string) []block {
	var blocks []block
	language, inside, open := "", false, false
	for n, line := range strings.Split(page, "\n") {
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && !inside:
			inside, language = true, fence
			if fence == "sh" {
				blocks, open = append(blocks, block{line: n + 2}), true
			}
		case isFence:
			inside = false
			open = open && language == "sh"
		case inside && language == "sh":
			blocks[len(blocks)-1].command += line + "\n"
		case inside && language == "" && open:
			last := &blocks[len(blocks)-1]
			last.shown = append(last.shown, line)
		case !inside && strings.HasPrefix(line, "#"):
			open = false
		}
	}
	for i := range blocks {
		blocks[i].command = provided.ReplaceAllString(blocks[i].command, ":")
	}
	return blocks
}

// An ellipsis stands for anything within its line, or alone for any lines.
const ellipsis = "…"

// vary are what is another one each time, and what is shown instead.
var vary = []struct {
	pattern *regexp.Regexp
	shown   string
}{
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "ID"},
	{regexp.MustCompile(`\btmp\.\w{10}\b`), "DIR"}, // of mktemp
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "INSTANT"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(µs|ms|s|m|h)\b`), "TIME"},
	{regexp.MustCompile(`[ \t]+`), " "},
}

func plain(lines []string) []string {
	var out []string
	for _, line := range lines {
		for _, v := range vary {
			line = v.pattern.ReplaceAllString(line, v.shown)
		}
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// compare says where the output is not what a page shows, or nothing.
func compare(shown, output []string) string {
	shown, output = plain(shown), plain(output)
	for len(shown) > 0 {
		want := shown[0]
		shown = shown[1:]
		if want == ellipsis {
			if len(shown) == 0 {
				return ""
			}
			at := slices.IndexFunc(output, func(line string) bool { return like(shown[0], line) })
			if at < 0 {
				return fmt.Sprintf("lacks %q", shown[0])
			}
			output = output[at:]
			continue
		}
		if len(output) == 0 {
			return fmt.Sprintf("ends before %q", want)
		}
		if !like(want, output[0]) {
			return fmt.Sprintf("has %q instead of %q", output[0], want)
		}
		output = output[1:]
	}
	if len(output) > 0 {
		return fmt.Sprintf("goes on with %q", output[0])
	}
	return ""
}

func like(want, line string) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(want), ellipsis, ".*")
	return regexp.MustCompile("^" + pattern + "$").MatchString(line)
}

func TestParse(t *testing.T) {
	const page = "# A\n```sh\nmake build\nls\n```\nIt says\n```\none\n```\n```\nno output\n```\n" +
		"```sh\ncd x\n```\n## B\n```\nof nobody\n```\n```js\nlet x;\n```\n"
	got, want := parse(page), []block{{3, ":\nls\n", []string{"one"}}, {14, "cd x\n", nil}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestCompare(t *testing.T) {
	for _, tc := range []struct{ shown, output, want string }{
		{"a  b\nc", "a b\n\nc\n", ""},
		{"took 2s", "took 1.5ms", ""},
		{"took 2s", "took 2", "has"},
		{"a", "a\nb", `goes on with "b"`},
		{"a\nb", "a", `ends before "b"`},
		{"…\nb", "a\nb", ""},
		{"…\nb", "a\nc", `lacks "b"`},
		{"a\n…", "a\nb\nc", ""},
		{"a … c", "a b c", ""},
		{"a … c", "a b d", "has"},
		{"a.c", "abc", "has"},
	} {
		got := compare(strings.Split(tc.shown, "\n"), strings.Split(tc.output, "\n"))
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("compare(%q, %q) = %q, want %q", tc.shown, tc.output, got, tc.want)
		}
	}
}
