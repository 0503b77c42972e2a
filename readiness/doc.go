// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package readiness tells whether this daemon can do its work. One background
// Checker per process asks what the daemon depends on; everybody else, however
// many, is answered from memory.
//
// The verdict is the same state machine as that of services (probe.Hysteresis):
// every 5 s, three failures in a row make the daemon not ready, one success
// ready; it starts not ready, and a verdict older than 15 s counts as not
// ready. Liveness asks nothing. Ready, Drain and the handlers are safe for
// concurrent use and cost no dependency call.
package readiness
