// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

// T27: the check writes. It is not content with a database that can only be
// read, and it changes no resource version.
func TestCheck(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		h := e.open(t)
		before := h.addSandbox(t, store.Sandbox{Workspace: "w", Name: "before"})
		for range 3 {
			if err := h.Check(t.Context()); err != nil {
				t.Fatalf("Check: %v", err)
			}
		}
		after := h.addSandbox(t, store.Sandbox{Workspace: "w", Name: "after"})
		if after.ResourceVersion != before.ResourceVersion+1 {
			t.Errorf("version %d after %d: checks took some", after.ResourceVersion, before.ResourceVersion)
		}

		execRaw(t, e.raw(t), "DELETE FROM write_check")
		if err := h.Check(t.Context()); err == nil || errors.Is(err, store.ErrBusy) {
			t.Errorf("Check with no row to write: error %v, want one that is not ErrBusy", err)
		}
		execRaw(t, e.raw(t), "INSERT INTO write_check (id, checked) VALUES (1, 0)")
		if err := h.Check(t.Context()); err != nil {
			t.Errorf("Check after the repair: %v", err)
		}
	})
}

// T27: rows can be read but not written.
func TestCheckReadOnlySQLite(t *testing.T) {
	e := sqliteEngine(t)
	h := e.open(t)
	db := e.raw(t)
	execRaw(t, db, "CREATE TRIGGER broken BEFORE UPDATE ON write_check BEGIN SELECT RAISE(ABORT, 'disk is broken'); END")
	if err := h.Check(t.Context()); err == nil || errors.Is(err, store.ErrBusy) {
		t.Errorf("Check: error %v, want one that is not ErrBusy", err)
	}
	if _, err := h.Sandboxes(t.Context(), store.SandboxQuery{}); err != nil {
		t.Errorf("read: %v", err)
	}
	execRaw(t, db, "DROP TRIGGER broken")
	if err := h.Check(t.Context()); err != nil {
		t.Errorf("Check after the repair: %v", err)
	}
}

// A failure of the engine that the function overlooks does not commit the rest.
func TestOverlookedFailure(t *testing.T) {
	e := sqliteEngine(t)
	h := e.open(t)
	execRaw(t, e.raw(t), "CREATE TRIGGER broken BEFORE INSERT ON services BEGIN SELECT RAISE(ABORT, 'disk is broken'); END")
	err := h.try(func(tx store.Tx) error {
		sb, err := tx.InsertSandbox(store.Sandbox{Workspace: "w", Name: "half"})
		if err != nil {
			return err
		}
		_, _ = tx.InsertService(store.Service{SandboxID: sb.ID, Name: "web"})
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "disk is broken") {
		t.Errorf("error %v, want the engine's", err)
	}
	if _, err := h.Sandbox(t.Context(), "w", "half"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("half of the write: %v, want ErrNotFound", err)
	}
}

// T27: a standby answers reads and refuses writes.
func TestCheckReadOnlyPostgres(t *testing.T) {
	e := postgresEngine(t)
	e.open(t).close(t)
	u, err := url.Parse(e.config.URL)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("default_transaction_read_only", "on")
	u.RawQuery = q.Encode()
	e.config.URL = u.String()
	h := e.open(t)
	if _, err := h.Sandboxes(t.Context(), store.SandboxQuery{}); err != nil {
		t.Errorf("read: %v", err)
	}
	if err := h.Check(t.Context()); err == nil || errors.Is(err, store.ErrBusy) {
		t.Errorf("Check: error %v, want one that is not ErrBusy", err)
	}
}

func TestCheckSchema(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		h := e.open(t)
		db := e.raw(t)
		version := "INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)"
		if e.postgres {
			version = "INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, true)"
		}
		execRaw(t, db, version)
		if err := h.Check(t.Context()); !errors.Is(err, store.ErrNewerSchema) {
			t.Errorf("Check with a newer schema: error %v, want ErrNewerSchema", err)
		}
		execRaw(t, db, "DELETE FROM goose_db_version WHERE version_id > 0")
		if err := h.Check(t.Context()); err == nil || errors.Is(err, store.ErrNewerSchema) || errors.Is(err, store.ErrBusy) {
			t.Errorf("Check with an older schema: error %v, want another one", err)
		}
		execRaw(t, db, "DROP TABLE goose_db_version")
		if err := h.Check(t.Context()); err == nil || errors.Is(err, store.ErrBusy) {
			t.Errorf("Check with no schema: error %v, want another one", err)
		}
	})
}

func TestObserve(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		var mu sync.Mutex
		var seen []string
		e.config.Observe = func(op string, d time.Duration, err error) {
			mu.Lock()
			defer mu.Unlock()
			if d < 0 {
				t.Errorf("%s took %v", op, d)
			}
			if err != nil {
				op += " failed"
			}
			seen = append(seen, op)
		}
		h := e.open(t)
		sb := h.addSandbox(t, store.Sandbox{Workspace: "w", Name: "s"})
		_, _ = h.Sandbox(t.Context(), "w", "s")
		_, _ = h.SandboxByID(t.Context(), "none")
		_, _ = h.Sandboxes(t.Context(), store.SandboxQuery{})
		_, _ = h.Service(t.Context(), "w", "s", "none")
		_, _ = h.Services(t.Context(), store.ServiceQuery{AllSandboxes: true})
		_, _ = h.ServicesOf(t.Context(), sb.ID)
		_ = h.Check(t.Context())
		_ = h.try(func(tx store.Tx) error { return tx.DeleteSandbox("none") })
		want := []string{"mutate", "sandbox", "sandbox failed", "sandboxes", "service failed", "services", "services", "check", "mutate failed"}
		if !slices.Equal(seen, want) {
			t.Errorf("observed %q, want %q", seen, want)
		}
	})
}
