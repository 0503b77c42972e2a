// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Tx is one write transaction. It is valid until the function that it was
// given to returns, and for one goroutine. Its errors are the sentinels of this
// package, after which the transaction goes on, or a failure of the engine,
// after which it can no longer commit.
type Tx struct{ t *transaction }

type transaction struct {
	conn
	ctx     context.Context
	now     time.Time // one instant for the whole transaction
	version int64     // last resource version handed out
	stored  int64     // what the counter holds
	failed  error     // first failure of the engine
	touched []string  // sandboxes whose record or services were written
}

// touch takes note of a write to a sandbox or its services.
func (t *transaction) touch(sandboxID string) {
	if !slices.Contains(t.touched, sandboxID) {
		t.touched = append(t.touched, sandboxID)
	}
}

// lock reads the counter and, with it, becomes the only writer.
func (t *transaction) lock() error {
	if t.dialect.beginWrite != "" {
		if _, err := t.exec(t.ctx, t.dialect.beginWrite); err != nil {
			return err
		}
	}
	err := t.row(t.ctx, "SELECT version FROM counter WHERE id = 1"+t.dialect.lockCounter).Scan(&t.stored)
	t.version = t.stored
	return err
}

// next hands out a resource version.
func (t *transaction) next() uint64 {
	t.version++
	return uint64(t.version)
}

func (t *transaction) saveCounter() error {
	if t.version == t.stored {
		return nil
	}
	_, err := t.exec(t.ctx, "UPDATE counter SET version = ?1 WHERE id = 1", t.version)
	return err
}

// check passes the errors that callers decide by and keeps the first of any
// other kind.
func (t *transaction) check(err error) error {
	if err == nil {
		return nil
	}
	for _, known := range []error{ErrNotFound, ErrExists, ErrConflict, ErrTooMany, ErrInvalid} {
		if errors.Is(err, known) {
			return err
		}
	}
	if t.failed == nil {
		t.failed = err
	}
	return err
}

// failed says what was tried.
func failed(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", op, err)
}

// Sandbox is Store.Sandbox inside the transaction.
func (tx Tx) Sandbox(workspace, name string) (Sandbox, error) {
	s, err := tx.t.sandbox(tx.t.ctx, workspace, name)
	return s, tx.t.check(err)
}

// SandboxByID is Store.SandboxByID inside the transaction.
func (tx Tx) SandboxByID(id string) (Sandbox, error) {
	s, err := tx.t.sandboxByID(tx.t.ctx, id)
	return s, tx.t.check(err)
}

// Service is Store.Service inside the transaction.
func (tx Tx) Service(workspace, sandbox, name string) (Service, error) {
	s, err := tx.t.service(tx.t.ctx, workspace, sandbox, name)
	return s, tx.t.check(err)
}

// ServicesOf is Store.ServicesOf inside the transaction.
func (tx Tx) ServicesOf(sandboxID string) ([]Service, error) {
	all, err := tx.t.servicesOf(tx.t.ctx, sandboxID)
	return all, tx.t.check(err)
}
