// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Command demo shows the whole of it in about a minute: two sandboxes with the
// same port, a real server in each, and every state of their health as the CLI
// shows it. It exits 1 if a state is not seen. With "codex" as its argument it
// does so with the Codex app-server.
package main
