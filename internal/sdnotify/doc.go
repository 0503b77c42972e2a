// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package sdnotify tells the service manager (systemd) how this process is
// doing: ready, stopping, alive. Without a service manager every call is a
// no-op, so callers need not ask.
//
// The environment is read once, by New, and never changed: NOTIFY_SOCKET stays
// set for every later call, and WATCHDOG_USEC is what it was at the start.
// Children therefore inherit both; who starts one decides what it may see.
//
// A Notifier is safe for concurrent use and owns nothing between calls: each
// message is one datagram on a socket of its own.
package sdnotify
