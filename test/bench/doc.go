// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Command bench measures the running parts: real binaries, real connections.
// Each part prints what it measured and against what, beside the machine. It
// asserts nothing about speed; make bench runs it after the packages' own
// benchmarks.
package main
