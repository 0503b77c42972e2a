// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// commandLine is one of our commands as a page has it.
type commandLine struct {
	where   string // page:line
	program string
	args    []string
	span    bool // in a sentence, where arguments may be left out
}

func (c commandLine) String() string { return c.program + " " + strings.Join(c.args, " ") }

// command finds our programs where a shell would run them: at the start, or
// behind what begins another command.
var command = regexp.MustCompile(`(?:^|\$\(|[|;&(] ?)\s*(?:\$ )?(?:[A-Z_]+=\S+ )*(?:\S*/)?(sandboxctl|sandbox-agent|sandbox-gateway)(?: |$)`)

// shells are the languages of fences that hold commands.
var shells = []string{"", "sh", "bash", "console"}

// commandLines returns our commands in the fences and code spans of a page.
func (p *page) commandLines() []commandLine {
	var list []commandLine
	for _, b := range p.blocks {
		if !slices.Contains(shells, b.language) {
			continue
		}
		lines := strings.Split(b.text, "\n")
		for i := 0; i < len(lines); i++ {
			at, text := b.line+i, lines[i]
			for strings.HasSuffix(text, "\\") && i+1 < len(lines) {
				i++
				text = strings.TrimSuffix(text, "\\") + lines[i]
			}
			list = append(list, p.commandsIn(at, text, false)...)
		}
	}
	for i, line := range p.prose {
		for _, span := range codeSpan.FindAllString(line, -1) {
			if span = strings.Trim(span, "`"); command.FindStringIndex(span) != nil && command.FindStringIndex(span)[0] == 0 {
				list = append(list, p.commandsIn(i+1, span, true)...)
			}
		}
	}
	return list
}

func (p *page) commandsIn(line int, text string, span bool) []commandLine {
	var list []commandLine
	for _, m := range command.FindAllStringSubmatchIndex(text, -1) {
		args := words(text[m[3]:])
		if len(args) > 0 { // otherwise it is only named
			list = append(list, commandLine{fmt.Sprintf("%s:%d", p.name, line), text[m[2]:m[3]], args, span})
		}
	}
	return list
}

// placeholders are what pages write for a value of a certain shape.
var placeholders = map[string]string{"PORT": "8080", "TIME": "30s", "NAME=PORT": "a=8080", "FILE": "/file", "PATH": "/path"}

// words splits the arguments of a command as a shell does, up to whatever ends
// it. Brackets around what may be left out are taken away.
func words(text string) []string {
	var list []string
	var word strings.Builder
	quote, begun := rune(0), false
	end := func() {
		if w := word.String(); begun && w != "…" && w != "..." {
			if value, ok := placeholders[w]; ok {
				w = value
			}
			list = append(list, w)
		}
		word.Reset()
		begun = false
	}
	for i, r := range text {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case strings.ContainsRune("|;&)<>`", r), r == '#' && !begun:
			if strings.ContainsRune("<>", r) && strings.Trim(word.String(), "012") == "" {
				word.Reset() // the number of a descriptor
				begun = false
			}
			end()
			return list
		case r == '[' || r == ']':
			begun = begun || i > 0 && r == '[' && word.Len() > 0
		case r == ' ' || r == '\t':
			end()
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	end()
	return list
}

func TestCommandLines(t *testing.T) {
	p := parse("a.md", "Run `sandboxctl service get SANDBOX [NAME] [--timeout TIME]`, or `x sandboxctl y`, or `sandboxctl`.\n"+
		"```sh\nA=1 bin/sandboxctl a \\\n  'b c' # d\necho \"$(sandboxctl e)f\" | sandbox-agent g 2>h &\nsystemctl status sandbox-agent now\n```\n"+
		"```text\nsandboxctl not a command\n```\n")
	var got []string
	for _, c := range p.commandLines() {
		got = append(got, fmt.Sprintf("%s %s %q", c.where, c.program, c.args))
	}
	want := []string{
		`a.md:3 sandboxctl ["a" "b c"]`,
		`a.md:5 sandboxctl ["e"]`,
		`a.md:5 sandbox-agent ["g"]`,
		`a.md:1 sandboxctl ["service" "get" "SANDBOX" "NAME" "--timeout" "30s"]`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %s\nwant %s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
