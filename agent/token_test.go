// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/internal/secret"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// want reads the token as for a dial.
func want(t *testing.T, tokens *tokens, token string) {
	t.Helper()
	if got, err := tokens.get(); err != nil || got.Reveal() != token {
		t.Errorf("the token is %q (%v), want %q", got.Reveal(), err, token)
	}
}

func TestTokenFileIsRenewed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	life := func() *tokens { return newTokens(Config{TokenFile: file, Logger: testkit.Logger(t)}) }
	put(t, file, "first\n")
	one := life()
	want(t, one, "first")
	one.renew(secret.New("second"))
	want(t, one, "second")
	want(t, life(), "second")
	put(t, file, "from outside\n")
	want(t, one, "from outside")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	want(t, one, "from outside") // it may come back
	if _, err := life().get(); err == nil {
		t.Error("no file, and no error")
	}
}

// A credential stays as it is; what the gateway has renewed outlives the agent
// until somebody puts a new credential there.
func TestRenewedCredentialIsKept(t *testing.T) {
	dir := t.TempDir()
	file, keep := filepath.Join(dir, "credential"), filepath.Join(dir, "kept")
	life := func() *tokens {
		return newTokens(Config{TokenFile: file, TokenKeep: keep, Logger: testkit.Logger(t)})
	}
	put(t, file, "first\n")
	one := life()
	want(t, one, "first")
	one.renew(secret.New("second"))
	one.renew(secret.New("third"))
	want(t, one, "third")
	if b, err := os.ReadFile(file); err != nil || string(b) != "first\n" {
		t.Errorf("the credential is now %q (%v)", b, err)
	}
	if info, err := os.Stat(keep); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("what is kept: %v, %v", info, err)
	}
	want(t, life(), "third")
	put(t, file, "new\n")
	want(t, one, "new")
	want(t, life(), "new")
	put(t, keep, "garbage")
	want(t, life(), "new")
}
