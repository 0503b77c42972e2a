// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

/**
 * Client of a sandbox gateway: one connection, one method for each call of the
 * API, generated messages in and out. What it adds by hand is little: finding
 * the gateway, lists as iterators over every page, errors by kind, watches and
 * waits that outlive a connection, and healthOf, which reads health the way
 * every client must.
 *
 * @module
 */
export { type CallOptions, elapsedMs, type WaitRequest, type WatchRequest } from "./options.js";
export { Client, connect, type ConnectOptions } from "./client.js";
export * from "./errors-public.js";
export type { GatewayOptions } from "./discovery.js";
export { type Health, healthOf, type HealthState } from "./health.js";
export * from "./messages.js";
export { allWorkspaces, newRequestId, workspace } from "./requests.js";
export { ServiceWatch, type ServiceUpdate } from "./watch.js";
export { reasonWatchStale, type WatchedService, watchTimeoutMs } from "./watch-state.js";
