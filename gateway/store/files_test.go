// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

// Everything that the store makes is its owner's alone.
func TestFileModes(t *testing.T) {
	e := sqliteEngine(t)
	e.config.Dir = filepath.Join(t.TempDir(), "a b?c#d%20e", "state")
	check := func(when string, want ...string) {
		t.Helper()
		info, err := os.Stat(e.config.Dir)
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: directory: %v, %v; want 0700", when, info, err)
		}
		entries, err := os.ReadDir(e.config.Dir)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, entry := range entries {
			info, err := entry.Info()
			if err != nil || info.Mode() != 0o600 {
				t.Errorf("%s: %s: mode %v, %v; want 0600", when, entry.Name(), info.Mode(), err)
			}
			names = append(names, entry.Name())
		}
		if got := strings.Join(names, " "); got != strings.Join(want, " ") {
			t.Errorf("%s: files %s, want %s", when, got, strings.Join(want, " "))
		}
	}
	h := e.open(t)
	h.addSandbox(t, store.Sandbox{Workspace: "w", Name: "s"})
	check("open", "gateway.db", "gateway.db-shm", "gateway.db-wal", "gateway.lock")
	h.close(t)
	check("closed", "gateway.db", "gateway.lock")

	for _, name := range []string{"gateway.db", "gateway.lock"} {
		if err := os.Chmod(filepath.Join(e.config.Dir, name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	h = e.open(t)
	h.addSandbox(t, store.Sandbox{Workspace: "w", Name: "t"})
	check("reopened after chmod 0666", "gateway.db", "gateway.db-shm", "gateway.db-wal", "gateway.lock")
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	path := func(elements ...string) string { return filepath.Join(append([]string{dir}, elements...)...) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(path("file"), nil, 0o600))
	must(os.Mkdir(path("shared"), 0o700))
	must(os.Chmod(path("shared"), 0o777))
	must(os.Mkdir(path("garbage"), 0o700))
	must(os.WriteFile(path("garbage", "gateway.db"), []byte(strings.Repeat("not a database. ", 100)), 0o600))
	must(os.MkdirAll(path("nested", "gateway.db"), 0o700))
	for _, test := range []struct {
		name   string
		config store.Config
		want   string // part of the message
	}{
		{"no directory", store.Config{}, "empty path"},
		{"a file", store.Config{Dir: path("file")}, "state directory"},
		{"writable by everybody", store.Config{Dir: path("shared")}, "mode 0777 lets everybody replace its files: want 0700"},
		{"not a database", store.Config{Dir: path("garbage")}, "not a database"},
		{"a directory in place of the database", store.Config{Dir: path("nested")}, "database file"},
		{"URL that is none", store.Config{URL: "postgres://user:hunter2@host:port/x"}, "database URL"},
		{"nobody listens", store.Config{URL: "postgres://user:hunter2@127.0.0.1:1/x?sslmode=disable"}, "127.0.0.1"},
	} {
		s, err := store.Open(t.Context(), test.config)
		if err == nil {
			s.Close()
			t.Errorf("%s: opened", test.name)
			continue
		}
		if !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %q, want %q in it", test.name, err, test.want)
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error shows the password: %q", test.name, err)
		}
	}
	if _, err := os.Stat(path("garbage", "gateway.lock")); err != nil {
		t.Fatal(err)
	}
	// A refused directory is not left locked.
	must(os.Remove(path("garbage", "gateway.db")))
	engine{config: store.Config{Dir: path("garbage")}}.open(t)
}

// T28: a file that is replaced under the open handle is noticed, and nothing
// more is written to it.
func TestFileReplaced(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(t *testing.T, path string)
	}{
		{"deleted", func(t *testing.T, path string) { remove(t, path) }},
		{"another file in its place", func(t *testing.T, path string) { replace(t, path) }},
		{"log deleted", func(t *testing.T, path string) { remove(t, path+"-wal") }},
		{"another log in its place", func(t *testing.T, path string) { replace(t, path+"-wal") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := sqliteEngine(t)
			h := e.open(t)
			h.addSandbox(t, store.Sandbox{Workspace: "w", Name: "s"})
			test.do(t, filepath.Join(e.config.Dir, "gateway.db"))
			if err := h.Check(t.Context()); !errors.Is(err, store.ErrReplaced) {
				t.Errorf("Check: error %v, want ErrReplaced", err)
			}
			if err := h.try(func(store.Tx) error { return nil }); !errors.Is(err, store.ErrReplaced) {
				t.Errorf("Mutate: error %v, want ErrReplaced", err)
			}
			if _, err := h.Sandbox(t.Context(), "w", "s"); err != nil {
				t.Errorf("the old file can still be read: %v", err)
			}
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// replace puts a copy in a file's place, as a restored backup would be.
func replace(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", content, fs.FileMode(0o600)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
