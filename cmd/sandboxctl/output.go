// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"
)

const (
	formatTable = "table"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

// show writes a message as --output says; table draws it for people.
func (a *app) show(m proto.Message, table func(*page)) error {
	return a.showAs(table, func() ([]byte, error) {
		// Empty lists and strings are written: a script can rely on them.
		return protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
	})
}

// showAs is show for whatever becomes JSON.
func (a *app) showAs(table func(*page), marshal func() ([]byte, error)) error {
	out := ""
	switch a.flags.output.value {
	case formatTable:
		width, _ := a.terminal(a.stdout)
		p := &page{width: width, colour: a.colour(a.stdout)}
		table(p)
		out = p.out.String()
		if len(p.hidden) > 0 {
			defer a.note("(no room for %s: widen the terminal, or use -o json)", strings.Join(p.hidden, ", "))
		}
	default:
		b, err := marshal()
		if err != nil {
			return fmt.Errorf("encode the answer: %w", err)
		}
		encode := jsonText
		if a.flags.output.value == formatYAML {
			encode = yamlText
		}
		if out, err = encode(b); err != nil {
			return fmt.Errorf("encode the answer: %w", err)
		}
	}
	if _, err := io.WriteString(a.stdout, out); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// jsonText lays JSON out one way (protojson varies its white space on purpose)
// and escapes whatever is not printable, which can only be within strings.
func jsonText(b []byte) (string, error) {
	var laid bytes.Buffer
	if err := json.Indent(&laid, b, "", "  "); err != nil {
		return "", err
	}
	return printableJSON(laid.String()) + "\n", nil
}

// printableJSON escapes what is not printable.
func printableJSON(s string) string {
	var out strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || !hidden(r):
			out.WriteRune(r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

// jsonLine is jsonText on one line.
func jsonLine(b []byte) (string, error) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, b); err != nil {
		return "", err
	}
	return printableJSON(compact.String()) + "\n", nil
}

// yamlText turns JSON into YAML. Strings that hold anything unprintable become
// double-quoted scalars with escapes: the encoder would leave some of it raw,
// so it is given a mark instead, which the scalar then replaces.
func yamlText(b []byte) (string, error) {
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return "", err
	}
	m := marks{prefix: "escaped"}
	for n := 0; bytes.Contains(b, []byte(m.prefix)); n++ {
		m.prefix = "escaped" + strconv.Itoa(n)
	}
	marked, err := json.Marshal(m.walk(value))
	if err != nil {
		return "", err
	}
	out, err := yaml.JSONToYAML(marked)
	if err != nil {
		return "", err
	}
	return strings.NewReplacer(m.pairs...).Replace(string(out)), nil
}

// marks replaces strings in a decoded JSON value.
type marks struct {
	prefix string
	pairs  []string // mark, scalar, mark, scalar …
}

func (m *marks) walk(v any) any {
	switch v := v.(type) {
	case string:
		return m.mark(v)
	case []any:
		for i := range v {
			v[i] = m.walk(v[i])
		}
	case map[string]any:
		marked := make(map[string]any, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			marked[m.key(k)] = m.walk(v[k])
		}
		return marked
	}
	return v
}

// longKey is the length from which the encoder writes "? KEY": the short form,
// the only one that it reads, ends at 1,024 characters.
const longKey = 129

// key is mark for a key. A long one always gets a mark, of just that length.
func (m *marks) key(s string) string {
	if len(s) < longKey {
		return m.mark(s)
	}
	mark := m.replace(s)
	long := mark + strings.Repeat("x", longKey-len(mark))
	m.pairs[len(m.pairs)-2] = long
	return long
}

// mergeKey is a word of YAML that the encoder takes for a string like any other.
const mergeKey = "<<"

// mark returns s, or the mark for it.
func (m *marks) mark(s string) string {
	if s != mergeKey && !strings.ContainsFunc(s, hidden) {
		return s
	}
	return m.replace(s)
}

// replace returns the mark for s. Go quotes with escapes that YAML knows.
func (m *marks) replace(s string) string {
	mark := m.prefix + "x" + strconv.Itoa(len(m.pairs)) + "x"
	m.pairs = append(m.pairs, mark, strconv.Quote(s))
	return mark
}
