// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
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
	dir, err := fs.Sub(migrations, s.dialect.migrations)
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	options := append(s.dialect.gooseOptions, goose.WithDisableGlobalRegistry(true), goose.WithSlog(s.cfg.Logger))
	p, err := goose.NewProvider(s.dialect.goose, s.writeDB, dir, options...)
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	current, target, err := p.GetVersions(ctx)
	if err != nil {
		return s.lockError(ctx, fmt.Errorf("read schema version: %w", err))
	}
	if current > target {
		return newerSchema(current, target)
	}
	done, err := p.Up(ctx)
	if err != nil {
		return s.lockError(ctx, fmt.Errorf("migrate schema: %w", err))
	}
	for _, m := range done {
		s.cfg.Logger.Info("schema migrated", "version", m.Source.Version, "duration", m.Duration)
	}
	s.version = target
	return nil
}

func newerSchema(current, target int64) error {
	return fmt.Errorf("%w: database has version %d, this gateway knows %d", ErrNewerSchema, current, target)
}
