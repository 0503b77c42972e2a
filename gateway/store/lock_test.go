// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

// T28: while another process holds the write lock, reads are served, a write
// waits for its deadline or the busy timeout and then is ErrBusy, Check says
// busy and not down, and all of it works again afterwards without a restart.
func TestAnotherProcessHoldsTheLock(t *testing.T) {
	e := sqliteEngine(t)
	e.config = e.config.WithBusyTimeout(3 * shortly)
	h := e.open(t)
	h.addSandbox(t, store.Sandbox{Workspace: "w", Name: "s"})
	holder := startChild(t, "holder", e.config.Dir)
	holder.expect(t, "held")
	testBusy(t, h, holder.release)
}

// The same on PostgreSQL, where the lock is that of the counter's row.
func TestAnotherClientHoldsTheLock(t *testing.T) {
	e := postgresEngine(t)
	e.config = e.config.WithBusyTimeout(3 * shortly)
	h := e.open(t)
	h.addSandbox(t, store.Sandbox{Workspace: "w", Name: "s"})
	tx, err := e.raw(t).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "SELECT version FROM counter FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	testBusy(t, h, func(t *testing.T) {
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	})
}

func testBusy(t *testing.T, h *handle, release func(*testing.T)) {
	nothing := func(store.Tx) ([]byte, error) { return nil, nil }
	for _, what := range []string{"busy timeout", "deadline"} {
		ctx := t.Context()
		if what == "deadline" {
			ctx = within(t, shortly)
		}
		if _, _, err := h.Mutate(ctx, store.Request{}, nothing); !errors.Is(err, store.ErrBusy) {
			t.Errorf("write, %s: error %v, want ErrBusy", what, err)
		}
		if _, err := h.Sandbox(t.Context(), "w", "s"); err != nil {
			t.Errorf("read: %v", err)
		}
		if _, err := h.Services(t.Context(), store.ServiceQuery{AllSandboxes: true}); err != nil {
			t.Errorf("list: %v", err)
		}
		if err := h.Check(within(t, shortly)); !errors.Is(err, store.ErrBusy) {
			t.Errorf("Check: error %v, want ErrBusy", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	timer := time.AfterFunc(shortly, cancel)
	defer timer.Stop()
	if _, _, err := h.Mutate(ctx, store.Request{}, nothing); !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrBusy) {
		t.Errorf("write whose caller goes away: error %v, want context.Canceled and not ErrBusy", err)
	}
	release(t)
	h.addSandbox(t, store.Sandbox{Workspace: "w", Name: "after"})
	if err := h.Check(t.Context()); err != nil {
		t.Errorf("Check afterwards: %v", err)
	}
}

// A write that waits for another process goes on as soon as the lock is free.
func TestWriteWaitsForAnotherProcess(t *testing.T) {
	e := sqliteEngine(t)
	h := e.open(t)
	holder := startChild(t, "holder", e.config.Dir)
	holder.expect(t, "held")
	written := make(chan error)
	go func() {
		written <- h.try(func(tx store.Tx) error {
			_, err := tx.InsertSandbox(store.Sandbox{Workspace: "w", Name: "s"})
			return err
		})
	}()
	if err := h.Check(within(t, shortly)); !errors.Is(err, store.ErrBusy) {
		t.Errorf("Check behind a waiting write: error %v, want ErrBusy", err)
	}
	select {
	case err := <-written:
		t.Fatalf("written while another process held the lock: %v", err)
	default:
	}
	holder.release(t)
	if err := <-written; err != nil {
		t.Errorf("write after the release: %v", err)
	}
}

// A second gateway on the same directory is refused, also in the same process,
// and gets it once the first has ended, however that ended.
func TestOneGatewayPerDirectory(t *testing.T) {
	e := sqliteEngine(t)
	refused := func(when string) {
		t.Helper()
		s, err := store.Open(t.Context(), e.config)
		if !errors.Is(err, store.ErrInUse) {
			t.Errorf("%s: error %v, want ErrInUse", when, err)
		}
		if err == nil {
			s.Close()
		}
	}
	h := e.open(t)
	refused("same process")
	h.close(t)

	first := startChild(t, "gateway", e.config.Dir)
	first.expect(t, "open")
	refused("another process")
	first.release(t)
	e.open(t).close(t)

	second := startChild(t, "gateway", e.config.Dir)
	second.expect(t, "open")
	second.kill()
	if err := second.cmd.Wait(); err == nil {
		t.Error("the child was to be killed")
	}
	e.open(t)
}

// Several gateways on one PostgreSQL database start at once on an empty schema.
func TestGatewaysStartTogether(t *testing.T) {
	e := postgresEngine(t)
	const n = 3
	errs := make(chan error, n)
	for range n {
		go func() {
			s, err := store.Open(context.Background(), e.config)
			if err == nil {
				err = errors.Join(s.Check(context.Background()), s.Close())
			}
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
