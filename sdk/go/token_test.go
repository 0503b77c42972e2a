// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestTokenHidesItself(t *testing.T) {
	const word = "s3cr3t"
	o := Options{Address: "https://h", Token: word}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb+verb+verb+"\n", o.Token, o, bearer{Token: o.Token})
	}
	if err := json.NewEncoder(&out).Encode(map[string]any{"token": o.Token}); err != nil {
		t.Fatal(err)
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("dial", "token", o.Token)
	for _, shown := range []string{word, fmt.Sprintf("%x", word)} {
		if strings.Contains(out.String(), shown) {
			t.Errorf("the token shows:\n%s", out.String())
		}
	}
	if strings.Count(out.String(), redacted) < 7*3+2 {
		t.Errorf("something other than %q was printed:\n%s", redacted, out.String())
	}
}

func TestTokenCharacters(t *testing.T) {
	for token, want := range map[Token]error{
		"": nil, "abc.DEF-_~+/=": nil,
		"a b": errTokenCharacters, "a\n": errTokenCharacters, "a\x00": errTokenCharacters, "ä": errTokenCharacters, "\x7f": errTokenCharacters,
	} {
		if err := token.check(); !errors.Is(err, want) {
			t.Errorf("check(%q) = %v, want %v", string(token), err, want)
		}
	}
}
