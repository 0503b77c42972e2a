// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Command sandbox-agent runs inside a sandbox; see its --help and
// docs/operations.md.
package main
