// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"time"
)

// Check tells whether the store works: its files are those that were opened,
// it can be read, its schema is the one of this binary, and a row can be
// written and committed. It changes no resource version.
//
// nil means all of that. An error that is ErrBusy means that reads work and
// another writer holds the lock: the store is busy, not down, and the caller
// should treat it as up. ErrReplaced means that a file of SQLite was taken away
// or replaced: only a restart helps. ErrNewerSchema means that a newer gateway has migrated
// the database while this one was running. Any other error means down.
func (s *Store) Check(ctx context.Context) (err error) {
	defer s.observe("check", time.Now(), &err)
	if err := s.files.verify(); err != nil {
		return err
	}
	var version int64
	if err := s.readers.row(ctx, "SELECT MAX(version_id) FROM goose_db_version").Scan(&version); err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	if version > s.version {
		return newerSchema(version, s.version)
	}
	if version < s.version {
		return fmt.Errorf("database schema has version %d, want %d", version, s.version)
	}
	return s.write(ctx, func(tx Tx) error {
		n, err := tx.t.exec(ctx, "UPDATE write_check SET checked = ?1 WHERE id = 1", tx.t.now.UnixMicro())
		if err != nil {
			return fmt.Errorf("write a row: %w", err)
		}
		if n != 1 {
			return fmt.Errorf("write a row: %d rows changed, want 1", n)
		}
		return nil
	})
}
