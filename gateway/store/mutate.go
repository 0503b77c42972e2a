// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

const (
	// replayWindow is how long a request id is remembered.
	replayWindow = 24 * time.Hour
	// pruneBatch bounds the clean-up that one write does. A write adds at most
	// one request id, so the table shrinks.
	pruneBatch = 16
)

// Mutate runs fn in one transaction, as the only writer, and returns its
// response. If fn returns an error nothing is changed and Mutate returns that
// error. fn must use tx for all it reads and must not call the Store.
//
// With a request id, a success is remembered for 24 hours: the same request
// gets the stored response, replayed is true and fn is not called. The same id
// with another method or payload is ErrRequestMismatch. Failures are not
// remembered.
//
// Mutate waits for its turn until ctx ends or the busy timeout (10 s) is over:
// ErrBusy. An error from the commit itself leaves the outcome unknown on
// PostgreSQL; the same request id tells.
func (s *Store) Mutate(ctx context.Context, r Request, fn func(Tx) ([]byte, error)) (response []byte, replayed bool, err error) {
	defer s.observe("mutate", time.Now(), &err)
	err = s.write(ctx, func(tx Tx) error {
		if r.ID != "" {
			response, replayed, err = tx.replay(r)
			if replayed || err != nil {
				return err
			}
		}
		if response, err = fn(tx); err != nil {
			return err
		}
		if tx.t.failed != nil {
			return tx.t.failed // fn has overlooked it
		}
		return tx.remember(r, response)
	})
	if err != nil {
		return nil, false, err
	}
	return response, replayed, nil
}

// write runs fn in a transaction that holds the write lock.
func (s *Store) write(ctx context.Context, fn func(Tx) error) error {
	select {
	case s.gate <- struct{}{}:
		defer func() { <-s.gate }()
	case <-ctx.Done():
		return s.lockError(ctx, ctx.Err())
	}
	sqlTx, err := s.writeDB.BeginTx(ctx, nil)
	if err != nil {
		return s.beginError(ctx, err)
	}
	defer sqlTx.Rollback() // does nothing after the commit
	t := &transaction{ctx: ctx, conn: conn{queryer: sqlTx, dialect: &s.dialect}}
	if err := t.lock(); err != nil {
		return s.lockError(ctx, err)
	}
	t.now = truncate(s.cfg.Now())
	if err := s.finish(t, sqlTx, fn); err != nil {
		if s.dialect.busy(err) { // somebody holds single rows of PostgreSQL
			return s.lockError(ctx, err)
		}
		return err
	}
	return nil
}

// finish runs fn and commits. The files are looked at last: a commit to a file
// that was replaced would be answered and lost.
func (s *Store) finish(t *transaction, sqlTx *sql.Tx, fn func(Tx) error) error {
	if err := fn(Tx{t}); err != nil {
		return err
	}
	if err := t.saveCounter(); err != nil {
		return fmt.Errorf("save counter: %w", err)
	}
	if err := s.files.verify(); err != nil {
		return err
	}
	// Also of a commit that failed: PostgreSQL may have carried it out.
	defer s.changed(t.touched)
	if err := sqlTx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

func (s *Store) changed(sandboxIDs []string) {
	if s.cfg.Changed == nil {
		return
	}
	for _, id := range sandboxIDs {
		s.cfg.Changed(id)
	}
}

// beginError explains an error of BEGIN: with SQLite it waits for the lock,
// with PostgreSQL for the network.
func (s *Store) beginError(ctx context.Context, err error) error {
	if s.dialect.lockCounter == "" || s.dialect.busy(err) {
		return s.lockError(ctx, err)
	}
	return fmt.Errorf("begin: %w", err)
}

// lockError makes ErrBusy of an error that came while waiting for the lock. A
// caller that went away gets its own cancellation.
func (s *Store) lockError(ctx context.Context, err error) error {
	if s.dialect.busy(err) || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return fmt.Errorf("wait for the write lock: %w", err)
}

// replay looks a request up. An id that has expired counts as unknown.
func (tx Tx) replay(r Request) (response []byte, found bool, err error) {
	t := tx.t
	var method string
	var payload []byte
	var created time.Time
	err = t.row(t.ctx, "SELECT method, payload, response, created FROM requests WHERE id = ?1", r.ID).
		Scan(&method, &payload, &response, instant{&created})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("look up request id: %w", err)
	case t.now.Sub(created) >= replayWindow:
		return nil, false, nil
	case method != r.Method || !bytes.Equal(payload, r.Payload[:]):
		return nil, false, ErrRequestMismatch
	}
	return response, true, nil
}

// remember stores the response and forgets some that have expired.
func (tx Tx) remember(r Request, response []byte) error {
	t := tx.t
	expired := t.now.Add(-replayWindow).UnixMicro()
	if _, err := t.exec(t.ctx, "DELETE FROM requests WHERE id IN "+
		"(SELECT id FROM requests WHERE created <= ?1 ORDER BY created LIMIT ?2)", expired, pruneBatch); err != nil {
		return fmt.Errorf("prune request ids: %w", err)
	}
	if r.ID == "" {
		return nil
	}
	if response == nil {
		response = []byte{} // a NULL otherwise
	}
	if _, err := t.exec(t.ctx, "INSERT INTO requests (id, method, payload, response, created) VALUES (?1, ?2, ?3, ?4, ?5) "+
		"ON CONFLICT (id) DO UPDATE SET method = excluded.method, payload = excluded.payload, "+
		"response = excluded.response, created = excluded.created",
		r.ID, r.Method, r.Payload[:], response, t.now.UnixMicro()); err != nil {
		return fmt.Errorf("store request id: %w", err)
	}
	return nil
}
