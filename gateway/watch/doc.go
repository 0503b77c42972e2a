// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package watch serves sandbox.v1: it tells clients when the answer to "is this
// service healthy" changes, and what it was before.
//
// The only judge is health.Evaluate. A book (pure) holds the latest answers
// about some sandboxes and when age alone will change one; given what is seen
// of a sandbox now, it says what is new. There is one book for the history, and
// one of its own in every watch and every wait, so that each of them tells the
// passing of time by itself, with its own timer, whatever else is stuck.
//
// What is seen of a sandbox is its stored record and its slot of the health
// cache. Touch and Stored say that one of them may have changed; both are
// levels: a set of sandboxes to look at again, which never grows beyond their
// number, never blocks the caller and may be told too much. One loop looks at
// slots, another reads records, so that a slow store delays no health. Each
// watch has a set of its own: whoever is slow to read, or stopped, delays
// nobody, and gets the newest state once it goes on.
//
// The order is that of the gateway's own reads: once a mutation or a report is
// answered, a watch, wait or history that begins later knows of it. States that
// follow each other faster than they are looked at are not all seen.
//
// With several replicas on one database, records that another replica writes
// are noticed when a session or a write here touches their sandbox.
//
// A Server is safe for concurrent use. New starts nothing; Run ends when its
// context does; Close ends the calls, which belong to the gRPC server.
package watch
