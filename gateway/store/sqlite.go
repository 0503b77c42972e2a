// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// maxReaders bounds the read connections, one of which is pinned: each keeps a
// page cache of at most 2 MiB, and reads are short.
const maxReaders = 9

func sqliteDialect() dialect {
	return dialect{
		goose:      goose.DialectSQLite3,
		migrations: "migrations/sqlite",
		rebind:     func(q string) string { return q },
		hasLabel:   "EXISTS (SELECT 1 FROM json_each(labels) WHERE json_each.key = %s AND json_each.value = %s)",
		busy: func(err error) bool {
			var e *sqlite.Error
			return errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_BUSY
		},
	}
}

func (s *Store) openSQLite(ctx context.Context) (err error) {
	s.dialect = sqliteDialect()
	if s.files, err = openFiles(s.cfg.Dir, s.cfg.Logger); err != nil {
		return err
	}
	common := []string{
		fmt.Sprintf("_busy_timeout=%d", s.cfg.busyTimeout.Milliseconds()),
		"_dqs=0", "_defensive=1", "_error_rc=1", "_pragma=trusted_schema(0)", "_foreign_keys=1",
	}
	// WAL lets readers pass the writer; FULL is explained in the package comment.
	if s.writeDB, err = openPool(s.files, 1, append(common,
		"_txlock=immediate", "_journal_mode=WAL", "_synchronous=FULL")...); err != nil {
		return err
	}
	if err := s.migrate(ctx); err != nil {
		return err
	}
	if s.readDB, err = openPool(s.files, maxReaders, append(common, "_query_only=1")...); err != nil {
		return err
	}
	if err := s.pin(ctx); err != nil {
		return err
	}
	s.readers = conn{dialect: &s.dialect, queryer: s.readDB}
	if err := s.readers.prepare(ctx, s.readDB, sandboxByName, sandboxByID, serviceByName, servicesOf); err != nil {
		return err
	}
	return s.files.sync()
}

// pin keeps one connection with the files open for the life of the Store. The
// last connection to close deletes -wal, so without it a broken connection
// could look like a replaced file; and an inode that is open is not reused, so
// with it a replaced file cannot look like the old one.
func (s *Store) pin(ctx context.Context) (err error) {
	if s.pinned, err = s.readDB.Conn(ctx); err != nil {
		return fmt.Errorf("open read connection: %w", err)
	}
	var n int
	if err := s.pinned.QueryRowContext(ctx, "SELECT COUNT(*) FROM counter").Scan(&n); err != nil {
		return fmt.Errorf("read counter: %w", err)
	}
	return s.files.watch("-wal")
}

// openPool opens a pool of at most n connections, which are kept.
func openPool(f *files, n int, parameters ...string) (*sql.DB, error) {
	connector, err := sqlite.NewConnector(f.uri(parameters...))
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	db := sql.OpenDB(watchedConnector{connector, f})
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db, nil
}

// watchedConnector refuses a connection to a file that took the place of ours.
type watchedConnector struct {
	driver.Connector
	files *files
}

func (w watchedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := w.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.files.verify(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}
