// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle creates, stops, starts and deletes sandboxes: it keeps the
// stored record, the driver's processes and the agent's session in step.
//
// Operations on one sandbox take turns, and so do requests with one id. Each
// stores what it is about to do, does it without holding the store, and stores
// that it is done. So Recover can finish after a crash what was begun: a stop
// and a deletion are completed, a creation is undone. Once begun an operation
// goes on even if its caller leaves.
//
// With a request id a success is stored and replayed; a failure is not. A
// Manager is safe for concurrent use and starts goroutines for the time of an
// operation only.
package lifecycle
