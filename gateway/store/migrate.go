// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

//go:embed migrations
var migrations embed.FS

// migrate brings the schema to the version of this binary, over the write
// connection. A newer schema is left alone.
func (s *Store) migrate(ctx context.Context) error {
	p, err := s.dialect.migrator(s.writeDB)
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	current, target, err := p.GetVersions(ctx)
	if err != nil {
		return s.beginError(ctx, fmt.Errorf("read schema version: %w", err))
	}
	if current > target {
		return newerSchema(current, target)
	}
	done, err := p.Up(ctx)
	if err != nil {
		return s.beginError(ctx, fmt.Errorf("migrate schema: %w", err))
	}
	for _, m := range done {
		s.cfg.Logger.Info("schema migrated", "version", m.Source.Version, "duration", m.Duration)
	}
	s.version = target
	return nil
}

// migrator is this package's migrations for one database.
func (d dialect) migrator(db *sql.DB) (*goose.Provider, error) {
	dir, err := fs.Sub(migrations, d.migrations)
	if err != nil {
		return nil, err
	}
	options := append(d.gooseOptions, goose.WithDisableGlobalRegistry(true))
	return goose.NewProvider(d.goose, db, dir, options...)
}

func newerSchema(current, target int64) error {
	return fmt.Errorf("%w: database has version %d, this gateway knows %d", ErrNewerSchema, current, target)
}
