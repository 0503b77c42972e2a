// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Command go creates a sandbox, waits until its service is ready, calls it by
// its URL, and deletes the sandbox. It takes the gateway of this machine, or the
// one that SANDBOX_GATEWAY and SANDBOX_GATEWAY_STATE_DIR name.
package main
