// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// defaultBusyTimeout is how long a write waits for the lock of another process
// when its context has no earlier deadline.
const defaultBusyTimeout = 10 * time.Second

// Config says where the state lives.
type Config struct {
	// Dir is the directory of the SQLite database, created if it is missing.
	// It must be on a local file system.
	Dir string
	// URL of a PostgreSQL database, postgres://…; empty means SQLite in Dir.
	// It may hold a password, so it is never printed.
	URL string
	// Now supplies the instants that are stored; nil means time.Now.
	Now func() time.Time
	// Logger; nil discards.
	Logger *slog.Logger
	// Observe, if set, is told of every operation: one of the words "sandbox",
	// "sandboxes", "service", "services", "mutate" and "check", how long it
	// took with all waiting, and its error. It must not block.
	Observe func(op string, d time.Duration, err error)
	// Changed, if set, is told of every sandbox of which a write may have
	// changed the record or a service, after the commit and before Mutate
	// returns. It must not block.
	Changed func(sandboxID string)

	busyTimeout time.Duration // tests shorten it
}

// Store is an open database. See the package comment for what it promises.
type Store struct {
	cfg     Config
	dialect dialect
	readers conn
	readDB  *sql.DB
	writeDB *sql.DB
	// gate admits one write of this process at a time, in order of arrival.
	gate    chan struct{}
	version int64     // of the schema
	files   *files    // SQLite only
	pinned  *sql.Conn // SQLite only
}

// Open opens the database and brings its schema up to date. ctx bounds that
// work only. Errors: ErrInUse, ErrNewerSchema, ErrBusy, or what the engine said.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.busyTimeout == 0 {
		cfg.busyTimeout = defaultBusyTimeout
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{cfg: cfg, gate: make(chan struct{}, 1)}
	open := s.openSQLite
	if cfg.URL != "" {
		open = s.openPostgres
	}
	if err := open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open store: %w", err), s.Close())
	}
	return s, nil
}

// Close releases the database. Call it once, after the last call has returned.
func (s *Store) Close() error {
	var errs []error
	if s.pinned != nil {
		errs = append(errs, s.pinned.Close())
	}
	for _, db := range []*sql.DB{s.readDB, s.writeDB} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(append(errs, s.files.Close())...)
}

// observe reports an operation; use it as defer s.observe(op, time.Now(), &err).
func (s *Store) observe(op string, start time.Time, err *error) {
	if s.cfg.Observe != nil {
		s.cfg.Observe(op, time.Since(start), *err)
	}
}
