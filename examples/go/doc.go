// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Command go creates a sandbox, waits until its service is ready, calls it by
// its URL, and deletes the sandbox. It finds the gateway as sandboxctl does.
package main
