// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package kit runs the real binaries for demonstrations and end-to-end tests:
// a gateway of its own with a state directory of its own on free ports, and the
// command line as a user has it. What it starts it ends, by process id.
package kit
