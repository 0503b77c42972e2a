// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package agent is the agent inside a sandbox: it probes the services that the
// gateway wants, or those of its own configuration, reports over a session that
// it dials, shows what it sees on the ops listener, and supervises a command.
//
// New starts nothing; Run blocks until the agent has stopped, and returns the
// exit code of the process. No gateway, store, network or service that is down
// makes an agent fail: it probes on and redials for ever. Nothing dials into a
// sandbox but through the session, and the agent dials nothing but its gateway
// and loopback.
//
// An agent that was suspended, with its machine or alone, finds out as soon as
// it runs again: it drops what was in flight, probes everything at once and,
// where its session can have died meanwhile, opens another at once.
package agent
