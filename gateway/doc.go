// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package gateway puts the gateway together: credentials, store, sessions,
// drivers, the service API and the listeners.
//
// Each listener is for one audience, so that each network needs to reach one
// of them only: the API (gRPC over TLS) and HTTP for users, the supervisor
// listener and socket for agents, ops for operators. New binds and opens
// everything and starts nothing; Run blocks until the gateway has drained.
// Nothing that is asked over one listener can keep another from answering.
package gateway
