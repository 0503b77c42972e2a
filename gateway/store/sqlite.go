// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// maxReaders bounds the read connections: each keeps a page cache of at most
// 2 MiB, and reads are short.
const maxReaders = 8

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
		fmt.Sprintf("_busy_timeout=%d", busyTimeout/time.Millisecond),
		"_dqs=0", "_defensive=1", "_error_rc=1", "_pragma=trusted_schema(0)", "_foreign_keys=1",
	}
	// WAL lets readers pass the writer; FULL is explained in the package comment.
	if s.writeDB, err = openPool(s.files.uri(append(common,
		"_txlock=immediate", "_journal_mode=WAL", "_synchronous=FULL")...), 1); err != nil {
		return err
	}
	if err := s.migrate(ctx); err != nil {
		return err
	}
	if s.readDB, err = openPool(s.files.uri(append(common, "_query_only=1")...), maxReaders); err != nil {
		return err
	}
	if err := s.files.watch(); err != nil {
		return err
	}
	return s.files.sync()
}

// openPool opens a pool of at most n connections, which are kept: a connection
// that is opened later could meet another file under the same name.
func openPool(uri string, n int) (*sql.DB, error) {
	connector, err := sqlite.NewConnector(uri)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db, nil
}
