// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/secret"
)

var raw = base64.RawURLEncoding

// part decodes one part of a token.
func part(t testing.TB, token secret.String, i int) map[string]any {
	t.Helper()
	b, err := raw.DecodeString(strings.Split(token.Reveal(), ".")[i])
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]any{}
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestTokenClaims(t *testing.T) {
	c := newClock()
	id := open(t, t.TempDir(), c)
	token, expires, err := id.Issue("sandbox-1", 7)
	if err != nil {
		t.Fatal(err)
	}
	header, body := part(t, token, 0), part(t, token, 1)
	if header["alg"] != "EdDSA" || header["kid"] != id.signer.keyID || len(id.signer.keyID) != 16 {
		t.Errorf("header %v", header)
	}
	now := float64(c.now.Unix())
	for name, want := range map[string]any{
		"iss": "sandbox-gateway", "sub": "sandbox-1", "generation": 7.0,
		"iat": now, "nbf": now - 48*3600, "exp": now + 3600,
	} {
		if body[name] != want {
			t.Errorf("%s is %v, want %v", name, body[name], want)
		}
	}
	if aud, ok := body["aud"].([]any); !ok || len(aud) != 1 || aud[0] != "sandbox-supervisor" {
		t.Errorf("aud is %v", body["aud"])
	}
	claims, err := id.Verify(token)
	if want := (Claims{"sandbox-1", 7, c.now.Add(time.Hour)}); err != nil || claims.SandboxID != want.SandboxID || claims.Generation != 7 || !claims.Expires.Equal(want.Expires) || !expires.Equal(want.Expires) {
		t.Errorf("%+v %v, want %+v", claims, err, want)
	}
}

// T17: a token is valid for a guest whose clock, or whose gateway's clock, was
// two days ahead when it was issued.
func TestTokenValidity(t *testing.T) {
	c := newClock()
	id := open(t, t.TempDir(), c)
	token, _, err := id.Issue("sandbox-1", 1)
	if err != nil {
		t.Fatal(err)
	}
	issued := c.now
	for after, valid := range map[time.Duration]bool{
		0: true, time.Hour - time.Second: true, time.Hour: false, 100 * time.Hour: false,
		-48 * time.Hour: true, -49 * time.Hour: false,
	} {
		c.now = issued.Add(after)
		_, err := id.Verify(token)
		if (err == nil) != valid || err != nil && !errors.Is(err, ErrToken) {
			t.Errorf("%v after it was issued: %v", after, err)
		}
		if after > 0 && err != nil && !strings.Contains(err.Error(), "expired") {
			t.Errorf("does not say that it has expired: %v", err)
		}
	}
}

// forge makes a token of any header and claims; sign makes the signature.
func forge(header, body map[string]any, sign func(signed string) []byte) secret.String {
	h, _ := json.Marshal(header)
	b, _ := json.Marshal(body)
	signed := raw.EncodeToString(h) + "." + raw.EncodeToString(b)
	return secret.New(signed + "." + raw.EncodeToString(sign(signed)))
}

func TestForgedTokens(t *testing.T) {
	c := newClock()
	dir := t.TempDir()
	id, other := open(t, dir, c), open(t, t.TempDir(), c)
	genuine, _, err := id.Issue("sandbox-1", 1)
	if err != nil {
		t.Fatal(err)
	}
	header, body := part(t, genuine, 0), part(t, genuine, 1)
	with := func(m map[string]any, name string, value any) map[string]any {
		m = maps.Clone(m)
		if m[name] = value; value == nil {
			delete(m, name)
		}
		return m
	}
	public, _ := id.signer.key.Public().(ed25519.PublicKey)
	ours := func(s string) []byte { return ed25519.Sign(id.signer.key, []byte(s)) }
	theirs := func(s string) []byte { return ed25519.Sign(other.signer.key, []byte(s)) }
	hs256 := func(s string) []byte {
		m := hmac.New(sha256.New, public)
		m.Write([]byte(s))
		return m.Sum(nil)
	}
	none := func(string) []byte { return nil }
	if _, err := id.Verify(forge(header, body, ours)); err != nil {
		t.Fatalf("the forger's own genuine token: %v", err)
	}
	parts := strings.Split(genuine.Reveal(), ".")
	foreign, _, _ := other.Issue("sandbox-1", 1)
	for name, token := range map[string]secret.String{
		"another gateway's token":                foreign,
		"signed with another key, our key id":    forge(header, body, theirs),
		"our signature, another key id":          forge(with(header, "kid", other.signer.keyID), body, ours),
		"no key id":                              forge(with(header, "kid", nil), body, ours),
		"a key id that is no text":               forge(with(header, "kid", 7), body, ours),
		"alg none":                               forge(with(header, "alg", "none"), body, none),
		"alg None":                               forge(with(header, "alg", "None"), body, none),
		"HS256 with the public key":              forge(with(header, "alg", "HS256"), body, hs256),
		"HS256, our signature":                   forge(with(header, "alg", "HS256"), body, ours),
		"another audience":                       forge(header, with(body, "aud", "admin"), ours),
		"no audience":                            forge(header, with(body, "aud", nil), ours),
		"another issuer":                         forge(header, with(body, "iss", "x"), ours),
		"no expiry":                              forge(header, with(body, "exp", nil), ours),
		"no sandbox":                             forge(header, with(body, "sub", ""), ours),
		"no generation":                          forge(header, with(body, "generation", nil), ours),
		"a negative generation":                  forge(header, with(body, "generation", -1), ours),
		"another body under a genuine signature": secret.New(parts[0] + "." + raw.EncodeToString([]byte(`{"sub":"x"}`)) + "." + parts[2]),
		"no signature":                           secret.New(parts[0] + "." + parts[1] + "."),
		"two parts":                              secret.New(parts[0] + "." + parts[1]),
		"nothing":                                {},
		"the admin token":                        id.AdminToken(),
		"64 KiB":                                 secret.New(strings.Repeat("a", 64<<10)),
	} {
		claims, err := id.Verify(token)
		if !errors.Is(err, ErrToken) || claims != (Claims{}) {
			t.Errorf("%s: %+v %v", name, claims, err)
		}
		if err != nil && (len(err.Error()) > 100 || len(token.Reveal()) > 20 && strings.Contains(err.Error(), token.Reveal()[:20])) {
			t.Errorf("%s: the error says too much: %v", name, err)
		}
	}
}
