// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package buildinfo says which build this is. The linker sets it once, before
// main; everybody else only reads it, from any goroutine.
package buildinfo
