// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// object is a JSON object.
type object = map[string]any

// behaviour is a case of cases.json; README.md says what the members mean.
type behaviour struct {
	Name  string            `json:"name"`
	About string            `json:"about"`
	Skip  map[string]string `json:"skip"`
	Steps []step            `json:"steps"`
}

type step struct {
	World  string `json:"world"`
	Script []int  `json:"script"`
	Count  int    `json:"count"`

	Do       object `json:"do"`
	Want     object `json:"want"`
	WithinMS int    `json:"within_ms"`
	AtMostMS int    `json:"at_most_ms"`
}

func behaviours(t *testing.T) []behaviour {
	t.Helper()
	content, err := os.ReadFile("cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []behaviour
	dec := json.NewDecoder(bytes.NewReader(content))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&list); err != nil {
		t.Fatal(err)
	}
	return list
}

// fill replaces the $names in a value; a text that is one name alone may become
// a number.
func fill(v any, names map[string]any) any {
	switch v := v.(type) {
	case string:
		if whole, ok := names[v]; ok {
			return whole
		}
		for name, value := range names {
			if text, ok := value.(string); ok {
				v = strings.ReplaceAll(v, name, text)
			}
		}
		return v
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = fill(e, names)
		}
		return out
	case object:
		out := object{}
		for k, e := range v {
			out[k] = fill(e, names)
		}
		return out
	}
	return v
}

// compare says where got is not what is wanted; nothing if it is.
func compare(want, got any, at string) string {
	switch want := want.(type) {
	case object:
		have, ok := got.(object)
		if !ok {
			return fmt.Sprintf("%s is %v, want an object", at, got)
		}
		for k, w := range want {
			v, there := have[k]
			if !there {
				return fmt.Sprintf("%s.%s is not there", at, k)
			}
			if wrong := compare(w, v, at+"."+k); wrong != "" {
				return wrong
			}
		}
		return ""
	case []any:
		have, ok := got.([]any)
		if !ok || len(have) != len(want) {
			return fmt.Sprintf("%s is %v, want %d elements", at, got, len(want))
		}
		for i := range want {
			if wrong := compare(want[i], have[i], fmt.Sprintf("%s[%d]", at, i)); wrong != "" {
				return wrong
			}
		}
		return ""
	case string:
		if pattern, ok := strings.CutPrefix(want, "~"); ok {
			text, isText := got.(string)
			if !isText || !regexp.MustCompile(pattern).MatchString(text) {
				return fmt.Sprintf("%s is %q, want a text with %s", at, got, pattern)
			}
			return ""
		}
	}
	if want != got {
		return fmt.Sprintf("%s is %#v, want %#v", at, got, want)
	}
	return ""
}

// normal makes of Go's own values what JSON makes of them.
func normal(v any) object {
	content, err := json.Marshal(v)
	if err != nil {
		return failed("Driver", err.Error())
	}
	out := object{}
	if err := json.Unmarshal(content, &out); err != nil {
		return failed("Driver", err.Error())
	}
	return out
}

func failed(kind, message string) object {
	return object{"error": object{"kind": kind, "message": message}}
}

// Nothing of the list can pass by a matcher that lets everything pass.
func TestCompare(t *testing.T) {
	got := normal(object{"ok": object{"a": 1, "b": "text here", "c": nil, "d": []any{1, 2}}})
	for _, c := range []struct {
		want string
		same bool
	}{
		{`{"ok":{"a":1,"c":null,"d":[1,2]}}`, true},
		{`{"ok":{"b":"~t h"}}`, true},
		{`{"ok":{"a":2}}`, false},
		{`{"ok":{"a":"1"}}`, false},
		{`{"ok":{"b":"text"}}`, false},
		{`{"ok":{"b":"~^h"}}`, false},
		{`{"ok":{"d":[1]}}`, false},
		{`{"ok":{"e":null}}`, false},
		{`{"ok":{"c":{}}}`, false},
		{`{"error":{}}`, false},
	} {
		var want object
		if err := json.Unmarshal([]byte(c.want), &want); err != nil {
			t.Fatal(err)
		}
		if wrong := compare(want, got, ""); (wrong == "") != c.same {
			t.Errorf("%s: %q", c.want, wrong)
		}
	}
}
