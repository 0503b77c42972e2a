// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
)

func (s *Store) openPostgres(context.Context) error {
	return errors.New("PostgreSQL is not supported yet")
}
