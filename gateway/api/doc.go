// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package api serves openshell.v1 to users: it validates requests, runs
// lifecycle operations and store mutations, and joins what is stored with what
// health.Evaluate answers at that instant.
//
// Reads start no probe and change no resource version. Every error of bad
// input is InvalidArgument and names the field, the value's fault and the
// rule. A Server is safe for concurrent use and starts no goroutine.
package api
