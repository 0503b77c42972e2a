// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the real binaries from outside: real processes in real
// namespaces, real servers under probe, the CLI as a user has it. Run it with
// make e2e; it needs root and what make setup installs.
package e2e
