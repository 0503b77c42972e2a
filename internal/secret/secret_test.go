// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestNeverPrinted(t *testing.T) {
	const value = "hunter2"
	s := New(value)
	holder := struct{ Token String }{s}
	var logs bytes.Buffer
	slog.New(slog.NewTextHandler(&logs, nil)).Info("m", "token", s, "holder", holder)
	slog.New(slog.NewJSONHandler(&logs, nil)).Info("m", "token", s, "holder", holder)
	js, err := json.Marshal(holder)
	if err != nil {
		t.Fatal(err)
	}
	all := logs.String() + string(js)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		all += fmt.Sprintf(verb+verb, s, holder)
	}
	if strings.Contains(all, value) {
		t.Fatalf("the secret was printed: %s", all)
	}
	if s.Reveal() != value || s.IsZero() || !New("").IsZero() {
		t.Fatal("Reveal or IsZero is wrong")
	}
}
