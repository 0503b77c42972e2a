// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

// Both engines have the same migrations, numbered without a gap from 1.
func TestMigrationNames(t *testing.T) {
	list := func(postgres bool) (names []string) {
		paths, err := store.MigrationNames(postgres)
		if err != nil || len(paths) == 0 {
			t.Fatalf("migrations: %v, %v", paths, err)
		}
		for _, p := range paths {
			names = append(names, filepath.Base(p))
		}
		return names
	}
	sqlite, postgres := list(false), list(true)
	if !reflect.DeepEqual(sqlite, postgres) {
		t.Errorf("SQLite has %v, PostgreSQL %v", sqlite, postgres)
	}
	for i, name := range sqlite {
		if want := strings.Repeat("0", 4) + string(rune('1'+i)) + "_"; i < 9 && !strings.HasPrefix(name, want) {
			t.Errorf("migration %d is %s, want %s…", i+1, name, want)
		}
	}
}

// A database of the first schema is brought forward with everything in it.
func TestMigrateFromVersion1(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		if !e.postgres {
			if err := os.Mkdir(e.config.Dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		db := e.raw(t)
		if err := store.MigrateTo(t.Context(), db, e.postgres, 1); err != nil {
			t.Fatal(err)
		}
		rows, err := os.ReadFile("testdata/v1.sql")
		if err != nil {
			t.Fatal(err)
		}
		execRaw(t, db, string(rows))
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}

		h := e.open(t)
		code := int32(3)
		at := func(micro int64) time.Time { return time.UnixMicro(micro).UTC() }
		wantSandbox := store.Sandbox{
			ID: "sb-1", Workspace: "default", Name: "old", Labels: map[string]string{"team": "x"}, Driver: "local", LogLevel: "info",
			Image: "base:1", Environment: map[string]string{"A": "b"}, Command: []string{"sleep", "9"}, TTY: true, ResourceVersion: 40,
			Generation: 2, Lifecycle: store.Stopped, ExitCode: &code, Instance: "i-1", Created: at(1767323045000001), Changed: at(1767323046000002),
		}
		wantService := store.Service{
			ID: "svc-1", SandboxID: "sb-1", Workspace: "default", Sandbox: "old", Name: "web", Port: 8080, Domain: true, HasCheck: true,
			Path: "/readyz", ResourceVersion: 41, Revision: 39, Created: at(1767323047000003), Annotations: map[string]string{"a": "b"},
		}
		if got, err := h.Sandbox(t.Context(), "default", "old"); err != nil || !reflect.DeepEqual(got, wantSandbox) {
			t.Errorf("sandbox\n got %+v, %v\nwant %+v", got, err, wantSandbox)
		}
		if got, err := h.Service(t.Context(), "default", "old", "web"); err != nil || !reflect.DeepEqual(got, wantService) {
			t.Errorf("service\n got %+v, %v\nwant %+v", got, err, wantService)
		}
		if s := h.addSandbox(t, store.Sandbox{Workspace: "default", Name: "new"}); s.ResourceVersion != 42 {
			t.Errorf("next version %d, want 42", s.ResourceVersion)
		}
	})
}

// A schema from a newer gateway is refused and left as it is.
func TestNewerSchema(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		e.open(t).close(t)
		db := e.raw(t)
		version := "INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)"
		if e.postgres {
			version = "INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, true)"
		}
		execRaw(t, db, version)
		s, err := store.Open(t.Context(), e.config)
		if !errors.Is(err, store.ErrNewerSchema) {
			t.Errorf("error %v, want ErrNewerSchema", err)
		}
		if err == nil {
			s.Close()
		} else if !strings.Contains(err.Error(), "999") {
			t.Errorf("error %q does not name the version", err)
		}
		execRaw(t, db, "DELETE FROM goose_db_version WHERE version_id = 999")
		e.open(t)
	})
}
