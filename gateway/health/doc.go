// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package health answers whether a service is healthy: a cache of what agents
// said, and one pure function, Evaluate, that judges how old it is.
//
// Nothing here is stored and nothing is swept: an answer's age is computed
// when it is read, from instants of the gateway's own monotonic clock, so it
// is right even if every goroutine of the gateway is blocked. Every path that
// shows health (get, list, metrics, page) calls Evaluate.
//
// A Cache is safe for concurrent use. Slots that it hands out are immutable.
package health
