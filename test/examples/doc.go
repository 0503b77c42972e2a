// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package examples follows the pages in examples/ word for word: each block of
// shell commands is run, from the top of the tree and in the order of the page,
// against a gateway of the test's own, and must print what the page shows
// below it. A page that is followed to its end has deleted its sandboxes; what
// it has left running is ended by its process group.
//
// Lines that begin with "make" or start a gateway are not run: make examples
// has built what they build, and the test has started a gateway. The page of
// systemd-image, and that of an image, have targets of their own.
package examples
