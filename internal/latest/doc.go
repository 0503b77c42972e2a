// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package latest holds a cell of size one in which the newest value wins: a
// writer never waits, a reader never sees a value twice.
//
// Any number of goroutines may Put; one goroutine waits on Ready and Takes.
// Values are not queued: what was put before the newest is gone, so the cell
// carries levels (a whole state), never edges (a change of one). A value that
// was put belongs to the reader; a writer that goes on changing it races.
package latest
