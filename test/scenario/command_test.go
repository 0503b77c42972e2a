// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

// command is a line of a story. Words in capitals stand for anything.
type command struct {
	words string
	do    func(s *stage, a args) error
}

// args are what stands for the words in capitals.
type args map[string]string

func (a args) duration(s *stage, name string) time.Duration {
	d, err := time.ParseDuration(a[name])
	if err != nil {
		s.t.Fatalf("line %d: %v", s.line, err)
	}
	return d
}

func (a args) number(s *stage, name string) uint16 {
	n, err := strconv.ParseUint(a[name], 10, 16)
	if err != nil {
		s.t.Fatalf("line %d: %v", s.line, err)
	}
	return uint16(n)
}

// do does a line.
func (s *stage) do(line string) error {
	words := strings.Fields(line)
	for _, c := range commands() {
		if a, ok := match(strings.Fields(c.words), words); ok {
			return c.do(s, a)
		}
	}
	return errors.New("nobody knows what that means")
}

func match(pattern, words []string) (args, bool) {
	if len(pattern) != len(words) {
		return nil, false
	}
	a := args{}
	for i, p := range pattern {
		switch {
		case p == strings.ToUpper(p):
			a[p] = words[i]
		case p != words[i]:
			return nil, false
		}
	}
	return a, true
}

func commands() []command {
	list := []command{
		{"wait TIME", func(s *stage, a args) error { s.pass(a.duration(s, "TIME"), nil); return nil }},
		{"read NAME", func(s *stage, a args) error { s.read(a["NAME"]); return nil }},
		{"never NAME older than TIME", neverOlder},
		{"never NAME STATE", never},
		{"until NAME STATE within TIME", until},
		{"until sandbox PHASE within TIME", until},
	}
	list = append(list, sandboxCommands()...)
	list = append(list, targetCommands()...)
	return append(list, linkCommands()...)
}

// simply is a command that cannot go wrong.
func simply(words string, do func(s *stage)) command {
	return command{words, func(s *stage, _ args) error { do(s); return nil }}
}

// is reports whether a service, or the sandbox, is in a state, or has a reason.
func (s *stage) is(name, word string) bool {
	if name == "sandbox" {
		name = ""
	}
	for _, seen := range strings.Fields(s.seen[name]) {
		if seen == word {
			return true
		}
	}
	return false
}

func never(s *stage, a args) error {
	name, word := a["NAME"], a["STATE"]
	s.promises = append(s.promises, promise{"never " + name + " " + word, func() string {
		if s.is(name, word) {
			return "it is " + s.seen[name]
		}
		return ""
	}})
	return nil
}

func neverOlder(s *stage, a args) error {
	name, limit := a["NAME"], a.duration(s, "TIME")
	s.promises = append(s.promises, promise{fmt.Sprintf("never %s older than %v", name, limit), func() string {
		svc, ok := s.world.Store.Service(name)
		if !ok {
			return ""
		}
		answer := s.world.Gateway.Answer(svc)
		if answer.Reason != health.NoReason {
			return ""
		}
		if age := s.world.Gateway.Since(answer.Observation.Latest); age > limit {
			return fmt.Sprintf("it is %v old", age)
		}
		return ""
	}})
	return nil
}

func until(s *stage, a args) error {
	name, word := a["NAME"], a["STATE"]
	if a["PHASE"] != "" {
		name, word = "sandbox", a["PHASE"]
	}
	stop := func() bool { return s.is(name, word) }
	if s.look(); !stop() && !s.pass(a.duration(s, "TIME"), stop) {
		return fmt.Errorf("%s is %q", name, s.seen[name])
	}
	return nil
}

func targetCommands() []command {
	list := []command{
		{"target PORT answers CODE", func(s *stage, a args) error {
			s.targets[a.number(s, "PORT")] = &target{Target: answers(a.number(s, "CODE"), soon)}
			return nil
		}},
		{"target PORT answers CODE in TIME", func(s *stage, a args) error {
			s.targets[a.number(s, "PORT")] = &target{Target: answers(a.number(s, "CODE"), a.duration(s, "TIME"))}
			return nil
		}},
		{"target PORT answers CODE in TIME to MORE", func(s *stage, a args) error {
			s.targets[a.number(s, "PORT")] = &target{
				Target: answers(a.number(s, "CODE"), a.duration(s, "TIME")), upTo: a.duration(s, "MORE"),
			}
			return nil
		}},
		{"target PORT plays LETTERS", func(s *stage, a args) error {
			t := &target{}
			for _, letter := range a["LETTERS"] {
				part, ok := letters[letter]
				if !ok {
					return fmt.Errorf("there is no letter %q", letter)
				}
				t.plays = append(t.plays, part)
			}
			s.targets[a.number(s, "PORT")] = t
			return nil
		}},
	}
	for words, reason := range map[string]probe.Reason{
		"refuses": probe.Refused, "hangs": probe.Timeout, "resets": probe.Reset, "closes": probe.Closed,
		"speaks no HTTP": probe.NotHTTP, "floods": probe.HeadersTooLarge, "is unreachable": probe.Unreachable,
		"cannot be observed": probe.NoResources,
	} {
		list = append(list, command{"target PORT " + words, func(s *stage, a args) error {
			s.targets[a.number(s, "PORT")] = &target{Target: fails(reason)}
			return nil
		}})
	}
	return list
}
