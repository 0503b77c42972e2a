// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var files = []string{CAFile, caKeyFile, AdminTokenFile, signingKeyFile}

func TestFilesAreMadeOnceAndPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	first := open(t, dir, newClock())
	contents := map[string]string{}
	for _, name := range files {
		contents[name] = read(t, dir, name)
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: mode %v, %v; want 0600", name, info.Mode(), err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: mode %v, %v; want 0700", info.Mode(), err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != len(files) {
		t.Errorf("left in the directory: %v, %v", entries, err)
	}
	second := open(t, dir, newClock())
	for _, name := range files {
		if read(t, dir, name) != contents[name] {
			t.Errorf("%s was made again", name)
		}
	}
	if first.AdminToken() != second.AdminToken() || !bytes.Equal(first.CA(), second.CA()) {
		t.Error("the second start has other credentials")
	}
	token, _, err := first.Issue("sandbox-1", 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.Verify(token); err != nil {
		t.Errorf("a token of the first start: %v", err)
	}
	other := open(t, t.TempDir(), newClock())
	if other.AdminToken() == first.AdminToken() || bytes.Equal(other.CA(), first.CA()) {
		t.Error("another gateway has the same credentials")
	}
}

// Files that are damaged or do not belong together are named, and nothing is
// replaced.
func TestDamagedFiles(t *testing.T) {
	other := t.TempDir()
	open(t, other, newClock())
	for _, tc := range []struct {
		name, file, content string
		want                string
	}{
		{"an empty key", caKeyFile, "", "certificate authority: ca.key: no PEM block"},
		{"a key that is none", caKeyFile, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "certificate authority: ca.key: "},
		{"a key of another kind", caKeyFile, read(t, other, signingKeyFile), "certificate authority: ca.key: a key of type ed25519.PrivateKey"},
		{"the key of another authority", caKeyFile, read(t, other, caKeyFile), "ca.crt and ca.key do not belong together"},
		{"the certificate of another authority", CAFile, read(t, other, CAFile), "ca.crt and ca.key do not belong together"},
		{"an empty certificate", CAFile, "", "certificate authority: ca.crt holds no PEM block"},
		{"a certificate that is none", CAFile, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "certificate authority: ca.crt: "},
		{"an empty signing key", signingKeyFile, "", "sandbox token key: sandbox-tokens.key: no PEM block"},
		{"a signing key of another kind", signingKeyFile, read(t, other, caKeyFile), "sandbox token key: sandbox-tokens.key: a key of type *ecdsa.PrivateKey"},
		{"an empty admin token", AdminTokenFile, "\n", "admin token: admin.token holds 0 characters, at least 16 are needed"},
		{"a short admin token", AdminTokenFile, "fifteen-letters\n", "admin token: admin.token holds 15 characters"},
	} {
		dir := t.TempDir()
		open(t, dir, newClock())
		write(t, dir, tc.file, tc.content)
		_, err := Open(Config{Dir: dir, Now: newClock().Now})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
		if read(t, dir, tc.file) != tc.content {
			t.Errorf("%s: the file was replaced", tc.name)
		}
		if err != nil && len(tc.content) > 20 && strings.Contains(err.Error(), tc.content[30:50]) {
			t.Errorf("%s: the error shows the file's content: %v", tc.name, err)
		}
	}
}

func TestMissingFiles(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, newClock())
	if err := os.Remove(filepath.Join(dir, caKeyFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Dir: dir, Now: newClock().Now}); err == nil || !strings.Contains(err.Error(), "ca.crt is there without ca.key") {
		t.Errorf("a certificate without its key: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, caKeyFile)); err == nil {
		t.Error("the next start has a key that nobody put there")
	}
	if err := os.Remove(filepath.Join(dir, CAFile)); err != nil {
		t.Fatal(err)
	}
	open(t, dir, newClock()) // a new authority
}

func TestDirectoriesThatCannotBeUsed(t *testing.T) {
	if os.Getuid() == 0 {
		t.Log("root writes anywhere: only a file in the way is tried")
	}
	file := filepath.Join(t.TempDir(), "file")
	write(t, filepath.Dir(file), "file", "")
	if _, err := Open(Config{Dir: file, Now: newClock().Now}); err == nil || !strings.HasPrefix(err.Error(), "state directory: ") {
		t.Errorf("a file in the way: %v", err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, AdminTokenFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Dir: dir, Now: newClock().Now}); err == nil || !strings.HasPrefix(err.Error(), "admin token: ") {
		t.Errorf("a directory in the way: %v", err)
	}
}

func TestWriteFileIsWholeOrNot(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for _, content := range []string{"first", "second"} {
		if err := WriteFile(path, []byte(content)); err != nil || read(t, dir, "f") != content {
			t.Fatalf("%q: %v", content, err)
		}
	}
	if err := WriteFile(filepath.Join(dir, "missing", "f"), nil); err == nil {
		t.Error("a directory that does not exist was written to")
	}
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(filepath.Join(dir, "d"), []byte("x")); err == nil {
		t.Error("a directory was replaced by a file")
	}
	var names []string
	if err := fs.WalkDir(os.DirFS(dir), ".", func(p string, _ fs.DirEntry, err error) error {
		names = append(names, p)
		return err
	}); err != nil || strings.Join(names, " ") != ". d f" {
		t.Errorf("left over: %q %v", names, err)
	}
}

func TestAdminToken(t *testing.T) {
	dir := t.TempDir()
	id := open(t, dir, newClock())
	token := id.AdminToken().Reveal()
	if len(token) < 40 || strings.TrimSpace(read(t, dir, AdminTokenFile)) != token {
		t.Errorf("the admin token has %d characters", len(token))
	}
	for _, tc := range []struct {
		token string
		want  bool
	}{
		{token, true},
		{"", false},
		{token + "x", false},
		{token[1:], false},
		{strings.ToUpper(token), false},
		{token + "\n", false},
		{read(t, dir, AdminTokenFile), false},
	} {
		if got := id.IsAdmin(tc.token); got != tc.want {
			t.Errorf("%d characters are the admin token: %t", len(tc.token), got)
		}
	}
	if text := fmt.Sprintf("%v %+v %#v", id.AdminToken(), id.AdminToken(), id.AdminToken()); strings.Contains(text, token) {
		t.Error("the admin token prints itself")
	}
	write(t, dir, AdminTokenFile, "  sixteen-letters!  \n")
	if !open(t, dir, newClock()).IsAdmin("sixteen-letters!") {
		t.Error("an admin token of one's own is not taken")
	}
}

// No clock is fine enough to see a comparison that stops at the first wrong
// byte, so this looks at the code: digests, compared in constant time.
func TestTheAdminTokenIsComparedInConstantTime(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "identity.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Name.Name != "IsAdmin" {
			continue
		}
		var called []string
		for n := range ast.Preorder(fn.Body) {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				called = append(called, sel.Sel.Name)
			}
		}
		if !slices.Equal(called, []string{"Sum256", "ConstantTimeCompare", "digest"}) {
			t.Errorf("IsAdmin uses %q", called)
		}
		return
	}
	t.Error("there is no IsAdmin in identity.go")
}

func TestDefaultLifetime(t *testing.T) {
	id, err := Open(Config{Dir: t.TempDir(), Now: newClock().Now})
	if err != nil || id.TokenLifetime() != DefaultTokenLifetime {
		t.Errorf("%v %v", id.TokenLifetime(), err)
	}
}
