// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/internal/secret"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

func TestExternal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sandboxes")
	d := NewExternal(Config{Dir: dir, Logger: testkit.Logger(t), OnExit: func(e Exit) { t.Errorf("exit %+v", e) }})
	path := d.TokenFile("alpha")
	if d.Name() != "external" || path != filepath.Join(dir, "alpha", "token") {
		t.Fatalf("name %q, token file %q", d.Name(), path)
	}
	if err := d.RenewToken("alpha", secret.New("x")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("renewal before the start: %v", err)
	}
	for _, token := range []string{"first", "second"} { // a start replaces
		s := spec("alpha")
		s.Token = secret.New(token)
		if err := d.Start(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		wantFile(t, path, token)
	}
	old, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if err := d.RenewToken("alpha", secret.New("third")); err != nil {
		t.Fatal(err)
	}
	wantFile(t, path, "third")
	buf := make([]byte, 16)
	if n, err := old.Read(buf); err != nil || string(buf[:n]) != "second" {
		t.Errorf("the old file reads %q, %v: it was not replaced as a whole", buf[:n], err)
	}
	if err := d.Adopt(t.Context(), []Spec{spec("alpha"), spec("never")}); err != nil {
		t.Error(err)
	}
	if err := d.Stop(t.Context(), "alpha"); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := d.Delete(t.Context(), "alpha"); err != nil {
			t.Error(err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("files are left: %v, %v", entries, err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil || string(data) != want {
		t.Errorf("%s holds %q, %v, want %q", path, data, err, want)
	}
	for p, mode := range map[string]fs.FileMode{path: 0o600, filepath.Dir(path): 0o700 | fs.ModeDir} {
		if info, err := os.Stat(p); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v, want mode %v", p, info, err, mode)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("beside the token: %v, %v", entries, err)
	}
}

func TestExternalFailedStartLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	d := NewExternal(Config{Dir: dir, Logger: testkit.Logger(t)})
	// A directory where the file should be cannot be replaced by it.
	if err := os.MkdirAll(filepath.Join(d.TokenFile("alpha"), "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := d.Start(t.Context(), spec("alpha")); err == nil {
		t.Fatal("the start succeeded")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("files are left: %v, %v", entries, err)
	}
}

// Both drivers refuse the same specs and ids, before they touch anything.
func TestBadInput(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sandboxes")
	cfg := Config{Dir: dir, Logger: testkit.Logger(t)}
	for _, tc := range []struct {
		field  string
		change func(*Spec)
	}{
		{"sandbox id", func(s *Spec) { s.ID = "" }},
		{"sandbox id", func(s *Spec) { s.ID = ".." }},
		{"sandbox id", func(s *Spec) { s.ID = "a/b" }},
		{"sandbox id", func(s *Spec) { s.ID = "-rf" }},
		{"sandbox id", func(s *Spec) { s.ID = "a\x00" }},
		{"sandbox id", func(s *Spec) { s.ID = strings.Repeat("a", 65) }},
		{"token", func(s *Spec) { s.Token = secret.String{} }},
		{"name", func(s *Spec) { s.Name = "" }},
		{"name", func(s *Spec) { s.Name = "Upper" }},
		{"name", func(s *Spec) { s.Name = "new\nline" }},
		{"name", func(s *Spec) { s.Name = strings.Repeat("a", 64) }},
		{"environment", func(s *Spec) { s.Environment = map[string]string{"": "x"} }},
		{"environment", func(s *Spec) { s.Environment = map[string]string{"A=B": "x"} }},
		{"environment", func(s *Spec) { s.Environment = map[string]string{"A": "x\x00"} }},
		{"command", func(s *Spec) { s.Command = []string{"a", "b\x00"} }},
	} {
		for _, d := range []Driver{NewExternal(cfg), NewLocal(cfg)} {
			s := spec("alpha", "serve")
			tc.change(&s)
			if err := d.Start(t.Context(), s); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tc.field) {
				t.Errorf("%s: start with a bad %s: %v", d.Name(), tc.field, err)
			}
			if tc.field != "sandbox id" {
				continue
			}
			for what, err := range map[string]error{
				"stop": d.Stop(t.Context(), s.ID), "delete": d.Delete(t.Context(), s.ID), "renew": d.RenewToken(s.ID, s.Token),
			} {
				if !errors.Is(err, ErrInvalid) {
					t.Errorf("%s: %s with id %q: %v", d.Name(), what, s.ID, err)
				}
			}
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("bad input made %s", dir)
	}
}
