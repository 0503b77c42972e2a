// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package scenario tells stories about the health of a service, and holds the
// product to them.
//
// A story is a text file in testdata. Its lines are comments (#), what happens,
// and, after >, what a client sees of it that asks every 50 ms: the time in
// seconds, and the answer whenever its state or reason is another one. The
// product runs in virtual time (test/rig), so a story is exact to the
// millisecond and takes none. The first round of an agent is due 5 s after its
// start.
//
//	go test ./test/scenario           compares
//	go test ./test/scenario -update   writes what is seen now
//
// Lines that begin with "never" or "until" are promises: they fail also with
// -update. docs/states.md says which story shows what.
package scenario
