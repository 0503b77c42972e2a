// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package sandboxtest is a gateway for tests: the API in memory, without
// agents, stores or sandboxes. Objects come from calls, or from the Put
// methods; health is what SetHealth said last and does not age; nothing
// happens by itself, but for the heartbeats of watches. MuteWatches and
// BreakWatches are what happens to watches in a network. Ids are "id-1", "id-2" and so on, times come from
// Options.Now.
//
// It keeps the rules that a client can see: names taken, names missing, the
// port range, workspaces, label selectors, pages, tokens. It is no judge of
// paths, names or request ids.
//
// A Gateway is safe for concurrent use. Start and StartTLS serve it until the
// test ends.
package sandboxtest
