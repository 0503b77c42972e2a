// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle creates, stops, starts and deletes sandboxes: it keeps the
// stored record, the driver's processes and the agent's session in step.
//
// Operations on one sandbox take turns. Stop and Delete store what was asked
// before they act, so that Recover can finish after a crash what was begun;
// once begun they go on even if the caller leaves. With a request id each
// success is stored and replayed. A Manager is safe for concurrent use.
package lifecycle
