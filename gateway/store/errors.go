// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store

import "errors"

// Errors that callers decide by, with errors.Is. Any other error means that
// the engine failed; its text is for the log.
var (
	// ErrNotFound: no such sandbox or service.
	ErrNotFound = errors.New("not found")
	// ErrExists: an insert met an object of the same id or the same name.
	ErrExists = errors.New("already exists")
	// ErrConflict: a compare-and-swap lost; the stored resource version is not
	// the one given.
	ErrConflict = errors.New("changed by somebody else")
	// ErrRequestMismatch: the request id was used within 24 hours with another
	// method or payload.
	ErrRequestMismatch = errors.New("request id was used for another request")
	// ErrTooMany: the sandbox has MaxServices services.
	ErrTooMany = errors.New("too many services in the sandbox")
	// ErrBusy: the write lock was not free within the deadline of the context
	// or within the busy timeout, whichever came first. Reads still work;
	// nothing was changed.
	ErrBusy = errors.New("store is locked by another writer")
	// ErrInvalid: a value that no engine can hold, such as text with a NUL.
	ErrInvalid = errors.New("invalid value")

	// ErrInUse: another gateway has the SQLite directory open.
	ErrInUse = errors.New("state directory is in use by another gateway")
	// ErrNewerSchema: the database was written by a newer gateway.
	ErrNewerSchema = errors.New("database schema is newer than this gateway")
	// ErrReplaced: a database file was moved, deleted or replaced while it was
	// open (SQLite only).
	ErrReplaced = errors.New("database file was replaced while it was open")
)
