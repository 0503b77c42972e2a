// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package store is the gateway's durable state: sandboxes, their services and
// the answers to recent request ids. Health is never stored.
//
// Two engines hold it behind one API: SQLite, embedded, in a directory that
// belongs to one gateway process at a time, and PostgreSQL, for several
// gateways.
//
// # Concurrency
//
// A Store is safe for concurrent use. Writes are serial: a [Tx] is the only
// writer of the whole database while its function runs, so what it reads stays
// true until it commits, and resource versions become visible in their order.
// Writes of one process queue in the order of their calls; those of several
// gateways on one PostgreSQL database meet at a row lock, so all of them
// together write at the pace of one commit after another. Reads come from a
// pool of their own, see the last commit and wait for no writer, also while
// another process holds the write lock.
//
// # Versions
//
// Every stored object carries a resource version, drawn from one counter that
// only grows: no value is ever used twice, also after deletes, restarts and a
// loss of power. Updates are compare-and-swap on it. A service's Revision is
// the version of the write that last changed what its agent has to do, so it
// names one configuration of one service for ever.
//
// # Durability
//
// A write that returned without an error survives kill -9 and loss of power.
// SQLite runs in WAL mode with synchronous=FULL: NORMAL would be as safe
// against corruption, but could lose the last commits with the power and then
// hand out their versions again. Writes are rare (people and CLIs make them),
// so one fsync each is cheap. PostgreSQL does what its synchronous_commit says.
//
// # Files
//
// The directory is created with mode 0700 and every file in it has mode 0600.
// gateway.lock is held (flock) while the Store is open; gateway.db, -wal and
// -shm are SQLite's. A file that is replaced while it is open makes [Store.Check]
// and every write fail with [ErrReplaced], since a write would go to a file that
// nobody will ever open again.
//
// # Readiness
//
// [Store.Check] reads and commits a row. A store that is locked by somebody else
// is busy, not down: the error is then [ErrBusy], and whoever decides about
// readiness should count it as a success.
package store
