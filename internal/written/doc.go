// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package written is the standard output of a command: a result that nobody got
// is none, whatever the code that printed it made of the error. A Writer is for
// one goroutine, as what it writes to.
package written
