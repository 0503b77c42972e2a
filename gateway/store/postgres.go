// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

const (
	maxPostgresReaders = 8
	// connectionLife bounds how long a connection is used, so that a gateway
	// finds the new address after a failover.
	connectionLife = 30 * time.Minute
	// idleTransaction is after how long PostgreSQL ends a write whose gateway
	// has gone silent in the middle, since it holds up all others.
	idleTransaction = 30 * time.Second

	lockNotAvailable = "55P03"
)

func postgresDialect() dialect {
	return dialect{
		goose:       goose.DialectPostgres,
		migrations:  "migrations/postgres",
		rebind:      func(q string) string { return strings.ReplaceAll(q, "?", "$") },
		lockCounter: " FOR UPDATE",
		hasLabel:    "labels::jsonb ->> CAST(%s AS TEXT) = %s",
		busy: func(err error) bool {
			var e *pgconn.PgError
			return errors.As(err, &e) && e.Code == lockNotAvailable
		},
	}
}

// openPostgres opens two pools as SQLite has them. A write locks the row of the
// counter first: that makes writers of all gateways serial, and resource
// versions visible in their order. One write connection is all that a gateway
// can use.
func (s *Store) openPostgres(ctx context.Context) error {
	s.dialect = postgresDialect()
	// Set in each transaction rather than once per connection: poolers hand the
	// same connection to several clients.
	s.dialect.beginWrite = fmt.Sprintf(
		"SELECT set_config('lock_timeout', '%d', true), set_config('idle_in_transaction_session_timeout', '%d', true)",
		s.cfg.busyTimeout.Milliseconds(), idleTransaction.Milliseconds())
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 60)) // every second for a minute
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	s.dialect.gooseOptions = []goose.ProviderOption{goose.WithSessionLocker(locker)}
	config, err := pgx.ParseConfig(s.cfg.URL)
	if err != nil {
		return fmt.Errorf("database URL: %w", err) // pgx leaves the password out
	}
	s.writeDB = postgresPool(config, 1)
	s.readDB = postgresPool(config, maxPostgresReaders)
	s.readers = conn{dialect: &s.dialect, queryer: s.readDB}
	return s.migrate(ctx)
}

func postgresPool(config *pgx.ConnConfig, n int) *sql.DB {
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	db.SetConnMaxLifetime(connectionLife)
	return db
}
