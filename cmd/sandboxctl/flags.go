// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// The types here are flag values. Their errors are usage errors that name the
// flag themselves.

// text is a string that must not be empty when it is given.
type text struct{ flag, value string }

func (t *text) String() string { return t.value }
func (t *text) Type() string   { return "string" }
func (t *text) Set(s string) error {
	if s == "" {
		return usagef("%s: is empty: leave it out or give it a value", t.flag)
	}
	t.value = s
	return nil
}

// choice is one of a few words.
type choice struct {
	flag, value string
	of          []string
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return strings.Join(c.of, "|") }
func (c *choice) Set(s string) error {
	if !slices.Contains(c.of, s) {
		return usagef("%s: %q is none of %s", c.flag, s, strings.Join(c.of, ", "))
	}
	c.value = s
	return nil
}

// patience is a duration above zero.
type patience time.Duration

func (p *patience) String() string { return time.Duration(*p).String() }
func (p *patience) Type() string   { return "duration" }
func (p *patience) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil {
		return usagef("--timeout: %q is no duration: write it like 30s or 2m", s)
	}
	if d <= 0 {
		return usagef("--timeout: %s is not more than zero", d)
	}
	*p = patience(d)
	return nil
}

// pairs is a repeatable KEY=VALUE. A secret one does not repeat its values.
type pairs struct {
	flag   string
	secret bool
	value  map[string]string
}

func (p *pairs) String() string { return "" }
func (p *pairs) Type() string   { return "KEY=VALUE" }
func (p *pairs) Set(s string) error {
	k, v, ok := strings.Cut(s, "=")
	if !ok || k == "" {
		if p.secret {
			return usagef("%s: a value is not of the form KEY=VALUE", p.flag)
		}
		return usagef("%s: %q is not of the form KEY=VALUE", p.flag, s)
	}
	if _, twice := p.value[k]; twice {
		return usagef("%s: %q is given twice", p.flag, k)
	}
	if p.value == nil {
		p.value = map[string]string{}
	}
	p.value[k] = v
	return nil
}

// exposures is a repeatable PORT or NAME=PORT.
type exposures struct{ value map[string]uint32 }

func (e *exposures) String() string { return "" }
func (e *exposures) Type() string   { return "[NAME=]PORT" }
func (e *exposures) Set(s string) error {
	name, port, named := strings.Cut(s, "=")
	if !named {
		name, port = "", s
	} else if name == "" {
		return usagef("--expose: %q has no name before the =: write PORT alone for the unnamed service", s)
	}
	n, err := parsePort(port)
	if err != nil {
		return usagef("--expose: %w", err)
	}
	if _, twice := e.value[name]; twice {
		if name == "" {
			return usagef("--expose: there is one unnamed service: name the others, NAME=PORT")
		}
		return usagef("--expose: service %q is given twice", name)
	}
	if e.value == nil {
		e.value = map[string]uint32{}
	}
	e.value[name] = n
	return nil
}

// names returns the services in the order of their names.
func (e *exposures) names() []string { return slices.Sorted(maps.Keys(e.value)) }

func parsePort(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("port %q is not a number from 1 to 65535", s)
	}
	return uint32(n), nil
}

// flagError turns an error of the flag parser into a usage error; one that a
// value made is one already, and says what is wrong without the parser's frame.
func flagError(cmd *cobra.Command, err error) error {
	if usage, ok := errors.AsType[*usageError](err); ok {
		err = usage.err
	}
	return usageIn(cmd, "%w", err)
}
