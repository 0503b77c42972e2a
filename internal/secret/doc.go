// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package secret keeps credentials out of logs, errors and JSON: a String
// shows itself only to whoever calls Reveal.
//
// A String is an immutable value and safe for concurrent use. It guards
// against printing by accident, not against a reader of the process's memory:
// nothing is wiped. Comparing credentials is the caller's work, in constant
// time.
package secret
