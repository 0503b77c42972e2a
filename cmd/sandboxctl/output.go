// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
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

// yamlText turns JSON into YAML. The encoder leaves some of what is not printable
// raw: strings that hold any are quoted twice, where it can be escaped.
func yamlText(b []byte) (string, error) {
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return "", err
	}
	doc, err := yamlNode(value)
	if err != nil {
		return "", err
	}
	var raw, out strings.Builder
	encoder := yaml.NewEncoder(&raw)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := encoder.Encode(doc); err != nil {
		return "", err
	}
	if err := encoder.Close(); err != nil {
		return "", err
	}
	for _, r := range raw.String() {
		if r == '\n' || !hidden(r) {
			out.WriteRune(r)
		} else { // Go escapes as YAML does
			out.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return out.String(), nil
}

// yamlNode turns a decoded JSON value into a node.
func yamlNode(v any) (*yaml.Node, error) {
	n := &yaml.Node{}
	var err error
	add := func(v any) {
		child, failed := yamlNode(v)
		err = errors.Join(err, failed)
		n.Content = append(n.Content, child)
	}
	switch v := v.(type) {
	case map[string]any:
		n.Kind = yaml.MappingNode
		for _, k := range slices.Sorted(maps.Keys(v)) {
			add(k)
			add(v[k])
		}
	case []any:
		n.Kind = yaml.SequenceNode
		for _, item := range v {
			add(item)
		}
	case json.Number:
		n.Kind, n.Value = yaml.ScalarNode, v.String()
	case string:
		if err = n.Encode(v); strings.ContainsFunc(v, hidden) {
			n.Style = yaml.DoubleQuotedStyle
		}
	default:
		err = n.Encode(v)
	}
	return n, err
}
