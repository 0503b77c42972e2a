// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"io/fs"
	"time"
)

// WithBusyTimeout shortens how long a write waits for another process.
func (c Config) WithBusyTimeout(d time.Duration) Config {
	c.busyTimeout = d
	return c
}

// MigrateTo brings an empty database to an old schema.
func MigrateTo(ctx context.Context, db *sql.DB, postgres bool, version int64) error {
	d := sqliteDialect()
	if postgres {
		d = postgresDialect()
	}
	p, err := d.migrator(db)
	if err != nil {
		return err
	}
	_, err = p.UpTo(ctx, version)
	return err
}

// MigrationNames lists the migrations of an engine.
func MigrationNames(postgres bool) ([]string, error) {
	d := sqliteDialect()
	if postgres {
		d = postgresDialect()
	}
	return fs.Glob(migrations, d.migrations+"/*.sql")
}

// DropIdle closes every connection that is not in use, as if all had broken.
func (s *Store) DropIdle() {
	for _, db := range []*sql.DB{s.readDB, s.writeDB} {
		db.SetMaxIdleConns(-1)
		db.SetMaxIdleConns(1)
	}
}
