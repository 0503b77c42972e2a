// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
)

// JSON and YAML say what the message says, printably, whatever it says.
func FuzzEncodings(f *testing.F) {
	for in, out := range hostile {
		f.Add(in, out)
	}
	f.Add("escapedx0x", "\x00escapedx0x")
	f.Add(": {}", "- |\n  x")
	f.Add("true", "0x10")
	f.Add("<<", "=")
	f.Add(strings.Repeat("k", 2000)+"\x1b", strings.Repeat("k", 2000))
	f.Fuzz(func(t *testing.T, a, b string) {
		a, b = strings.ToValidUTF8(a, "?"), strings.ToValidUTF8(b, "?")
		m := &openshellv1.SandboxResponse{
			ServiceUrls: map[string]string{a: b, b: a},
			Sandbox:     &openshellv1.Sandbox{Spec: &openshellv1.SandboxSpec{Command: []string{a, b}}},
		}
		raw, err := protojson.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		text, err := jsonText(raw)
		if err != nil {
			t.Fatal(err)
		}
		got := &openshellv1.SandboxResponse{}
		if err := protojson.Unmarshal([]byte(text), got); err != nil || !proto.Equal(got, m) {
			t.Errorf("JSON: %v\n%s", err, text)
		}
		doc, err := yamlText(raw)
		if err != nil {
			t.Fatal(err)
		}
		var fromYAML, want any
		if err := yaml.Unmarshal([]byte(doc), &fromYAML); err != nil {
			t.Fatalf("YAML: %v\n%s", err, doc)
		}
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(fromYAML, want) {
			t.Errorf("YAML says %q, want %q:\n%s", fromYAML, want, doc)
		}
		for _, s := range []string{text, doc} {
			if strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
				t.Errorf("unprintable:\n%q", s)
			}
		}
	})
}

// The layout does not depend on protojson's white space, which varies from
// build to build.
func TestJSONLayout(t *testing.T) {
	const want = "{\n  \"a\": [\n    1\n  ],\n  \"b\": \"x  y\"\n}\n"
	for _, in := range []string{`{"a":[1],"b":"x  y"}`, `{"a": [ 1 ],  "b": "x  y"}`, "{\n\"a\" :[1]\n,\"b\":\"x  y\" }"} {
		if got, err := jsonText([]byte(in)); err != nil || got != want {
			t.Errorf("%s: %q, %v", in, got, err)
		}
	}
}
