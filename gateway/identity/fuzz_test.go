// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"errors"
	"strings"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/internal/secret"
)

// FuzzVerify: a text is the token that was issued, or it is refused in words
// that hold nothing of it.
func FuzzVerify(f *testing.F) {
	c := newClock()
	id := open(f, f.TempDir(), c)
	token, _, err := id.Issue("sandbox-1", 7)
	if err != nil {
		f.Fatal(err)
	}
	parts := strings.Split(token.Reveal(), ".")
	none := raw.EncodeToString([]byte(`{"alg":"none","kid":"` + id.signer.keyID + `","typ":"JWT"}`))
	other := raw.EncodeToString([]byte(`{"iss":"sandbox-gateway","sub":"sandbox-2","aud":["sandbox-supervisor"],"exp":4102444800,"generation":7}`))
	for _, seed := range []string{
		token.Reveal(), "", ".", "..", "a.b.c", parts[0] + "." + parts[1] + ".", none + "." + parts[1] + ".", none + "." + other + ".",
		parts[0] + "." + other + "." + parts[2], parts[0] + "." + parts[1] + "." + parts[2] + "=", " " + token.Reveal(), token.Reveal() + "\n",
		strings.ToUpper(token.Reveal()), token.Reveal() + "." + parts[2], "\x1b[31m.\x00.\xff",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		claims, err := id.Verify(secret.New(text))
		switch {
		case err == nil:
			if claims.SandboxID != "sandbox-1" || claims.Generation != 7 {
				t.Fatalf("%q is a token for %+v", text, claims)
			}
		case !errors.Is(err, ErrToken) || claims != (Claims{}):
			t.Fatalf("%q: %+v, %v", text, claims, err)
		case err.Error() != ErrToken.Error() && err.Error() != ErrToken.Error()+": it has expired" && err.Error() != ErrToken.Error()+": it names no sandbox":
			t.Fatalf("%q: %q", text, err)
		}
	})
}
