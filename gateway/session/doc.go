// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package session accepts agents: it authenticates their handshakes, decides
// which session holds a sandbox, and runs each session's control stream.
//
// Registry is the pure core: the newest authenticated session of a sandbox
// wins, the displaced one is closed at once, and only its owner can give a
// place up, so that late clean-up never touches a winner. Server is the shell
// around it: an http.Handler for handshakes, and one gRPC server, shared by
// all sessions, that serves supervisor.v1 and grpc.health.v1 on the control
// stream of each.
//
// The order within one session is: desired state, then reports and
// acknowledgements; an observation is in the health cache before its report is
// acknowledged. A Server is safe for concurrent use.
package session
