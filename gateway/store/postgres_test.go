// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"errors"
	"net/url"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

// A server that drops all connections, as on a failover, costs at most some
// failed calls.
func TestPostgresDropsConnections(t *testing.T) {
	e := postgresEngine(t)
	u, err := url.Parse(e.config.URL)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	application := q.Get("search_path")
	q.Set("application_name", application)
	u.RawQuery = q.Encode()
	admin := e.raw(t) // without that application name
	e.config.URL = u.String()
	h := e.open(t)
	h.addSandbox(t, store.Sandbox{Workspace: "w", Name: "s"})
	for range 2 {
		var n int
		if err := admin.QueryRowContext(t.Context(), "SELECT COUNT(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity "+
			"WHERE application_name = $1 AND pid <> pg_backend_pid()", application).Scan(&n); err != nil || n == 0 {
			t.Fatalf("%d connections dropped, %v", n, err)
		}
		if err := eventually(func() error { return h.Check(t.Context()) }); err != nil {
			t.Errorf("Check: %v", err)
		}
		if err := eventually(func() error { return second(h.Sandbox(t.Context(), "w", "s")) }); err != nil {
			t.Errorf("read: %v", err)
		}
		if err := h.try(func(store.Tx) error { return nil }); err != nil {
			t.Errorf("write: %v", err)
		}
	}
}

// eventually tries as often as a pool has connections.
func eventually(f func() error) (err error) {
	for range 10 {
		if err = f(); err == nil {
			return nil
		}
	}
	return err
}

// A row that another client has locked, without holding the write lock, makes
// a write busy and not broken.
func TestPostgresRowLock(t *testing.T) {
	e := postgresEngine(t)
	e.config = e.config.WithBusyTimeout(shortly)
	h := e.open(t)
	sb := h.addSandbox(t, store.Sandbox{Workspace: "w", Name: "s"})
	tx, err := e.raw(t).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "SELECT id FROM sandboxes FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	update := func(tx store.Tx) error { _, err := tx.UpdateSandbox(sb); return err }
	if err := h.try(update); !errors.Is(err, store.ErrBusy) {
		t.Errorf("error %v, want ErrBusy", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := h.try(update); err != nil {
		t.Errorf("after the release: %v", err)
	}
}
