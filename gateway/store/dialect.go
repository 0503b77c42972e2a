// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/pressly/goose/v3"
)

// dialect is all that differs between the engines. Statements are written
// with ?1, ?2 … for their parameters.
type dialect struct {
	goose        goose.Dialect
	migrations   string // directory in the embedded file system
	gooseOptions []goose.ProviderOption
	rebind       func(string) string
	// beginWrite, if any, is the first statement of a write.
	beginWrite string
	// lockCounter ends the statement that reads the counter at the beginning of
	// a write, where BEGIN itself does not lock.
	lockCounter string
	// hasLabel is the condition that column labels holds a key with a value.
	hasLabel string
	// busy reports whether an engine's error says that a lock was not free.
	busy func(error) bool
}

// queryer is what *sql.DB and *sql.Tx share.
type queryer interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
	QueryRowContext(context.Context, string, ...any) *sql.Row
}

// conn runs statements in the engine's dialect, in a transaction or outside.
type conn struct {
	queryer  queryer
	dialect  *dialect
	prepared map[string]*sql.Stmt // never written after Open; may be nil
}

// prepare keeps statements parsed: with SQLite, parsing is more than half of a
// read by key. They are closed with the database.
func (c *conn) prepare(ctx context.Context, db *sql.DB, statements ...string) error {
	c.prepared = map[string]*sql.Stmt{}
	for _, statement := range statements {
		p, err := db.PrepareContext(ctx, c.dialect.rebind(statement))
		if err != nil {
			return fmt.Errorf("prepare statement: %w", err)
		}
		c.prepared[statement] = p
	}
	return nil
}

func (c conn) exec(ctx context.Context, statement string, args ...any) (int64, error) {
	r, err := c.queryer.ExecContext(ctx, c.dialect.rebind(statement), args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (c conn) row(ctx context.Context, statement string, args ...any) *sql.Row {
	if p := c.prepared[statement]; p != nil {
		return p.QueryRowContext(ctx, args...)
	}
	return c.queryer.QueryRowContext(ctx, c.dialect.rebind(statement), args...)
}

func (c conn) rows(ctx context.Context, statement string, args ...any) (*sql.Rows, error) {
	if p := c.prepared[statement]; p != nil {
		return p.QueryContext(ctx, args...)
	}
	return c.queryer.QueryContext(ctx, c.dialect.rebind(statement), args...)
}
