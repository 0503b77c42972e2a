// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import { create, equals } from "@bufbuild/protobuf";

import {
  SandboxPhase,
  type ServiceEndpointResponse,
  ServiceEndpointResponseSchema,
  ServiceEndpointSchema,
  ServiceHealthSchema,
  ServiceHealthState,
} from "./gen/openshell/v1/openshell_pb.js";
import type { WatchServicesResponse } from "./gen/sandbox/v1/watch_pb.js";
import type { SandboxError } from "./errors.js";
import { type Health, healthOf } from "./health.js";

/**
 * How long, in milliseconds, what a watch has told counts without a word from
 * the gateway. After that every service is unknown.
 */
export const watchTimeoutMs = 15_000;

/**
 * The reason of a health that is unknown because a watch has heard nothing for
 * watchTimeoutMs. It is this package's; no gateway says it.
 */
export const reasonWatchStale = "WatchStale";

/** A service as a watch knows it. Its messages are shared and only to be read. */
export interface WatchedService {
  /** The endpoint, its URL and its health. */
  readonly service: ServiceEndpointResponse;
  /** healthOf(service). */
  readonly health: Health;
  /** Phase of the sandbox. */
  readonly phase: SandboxPhase;
  /** How long ago the latest attempt was, in milliseconds, as of the moment this was handed out; undefined if there was none. */
  readonly ageMs: number | undefined;
}

/** A service in the state, with the instant of its latest attempt. */
interface Known {
  service: ServiceEndpointResponse;
  phase: SandboxPhase;
  checked: number | undefined;
}

/** What the messages of a watch amount to, over all its streams. Pure: time is an argument. */
export class WatchState {
  /** Of the latest full state, by number. */
  private services = new Map<number, Known>();
  /** Of a full state that is not complete. */
  private incoming: Map<number, Known> | undefined = new Map();
  private sequence = 0n;
  private heard = -Infinity;

  /** A full state was complete once. */
  complete = false;
  connected = false;
  /** Why it is not connected. */
  error: SandboxError | undefined;

  /** Takes note of a new stream. */
  begin(): void {
    this.sequence = 0n;
    this.incoming = new Map();
  }

  /**
   * Takes in a message that was received at now. Returns a fault after which
   * the stream cannot be trusted any more.
   */
  take(m: WatchServicesResponse, now: number): string | undefined {
    if (m.sequence !== this.sequence + 1n) {
      return `the gateway's messages are not in sequence: ${m.sequence} came after ${this.sequence}`;
    }
    this.sequence = m.sequence;
    const into = this.incoming ?? this.services;
    if (!this.incoming) {
      this.heard = now;
    }
    for (const number of m.removed) {
      into.delete(number);
    }
    for (const s of m.services) {
      if (s.number !== 0 && s.service) {
        into.set(s.number, { service: s.service, phase: s.sandboxPhase, checked: s.ageMs === undefined ? undefined : now - s.ageMs });
      }
    }
    for (const age of m.ages) {
      const known = into.get(age.number);
      if (known) {
        into.set(age.number, { ...known, checked: now - age.ageMs });
      }
    }
    if (m.complete && this.incoming) {
      this.services = this.incoming;
      this.incoming = undefined;
      this.heard = now;
      this.complete = this.connected = true;
      this.error = undefined;
    }
    return undefined;
  }

  /** Takes note that the stream has ended. */
  lost(error: SandboxError): void {
    this.connected = false;
    this.error = error;
  }

  /** The instant from which on everything is unknown. */
  expires(): number {
    return this.heard + watchTimeoutMs;
  }

  /** All services as they are known at now, in the order of workspace, sandbox and name. */
  at(now: number): WatchedService[] {
    const stale = now >= this.expires();
    return [...this.services.values()]
      .map(({ service, phase, checked }) => {
        const shown = stale ? staled(service) : service;
        return { service: shown, health: healthOf(shown), phase, ageMs: checked === undefined ? undefined : Math.max(now - checked, 0) };
      })
      .sort(compare);
  }
}

/** The service once nobody knows how it is. */
function staled(service: ServiceEndpointResponse): ServiceEndpointResponse {
  const health = create(ServiceHealthSchema, {
    state: ServiceHealthState.UNKNOWN,
    reason: reasonWatchStale,
    message: "the gateway has not been heard for 15 seconds",
  });
  if (service.health?.lastCheckedTime) {
    health.lastCheckedTime = service.health.lastCheckedTime;
  }
  const out = create(ServiceEndpointResponseSchema, { url: service.url, health });
  if (service.endpoint) {
    out.endpoint = service.endpoint;
  }
  return out;
}

/** Orders services and tells them apart: one that was deleted and made anew is another. */
function compare(a: WatchedService, b: WatchedService): number {
  const x = key(a);
  const y = key(b);
  for (let i = 0; i < x.length; i++) {
    if (x[i] !== y[i]) {
      return x[i]! < y[i]! ? -1 : 1;
    }
  }
  return 0;
}

function key({ service: { endpoint } }: WatchedService): string[] {
  return [endpoint?.metadata?.workspace ?? "", endpoint?.sandbox ?? "", endpoint?.name ?? "", endpoint?.metadata?.id ?? ""];
}

/** Whether a change from one to the other is no news. */
function same(a: WatchedService, b: WatchedService): boolean {
  const [x, y] = [a.service, b.service];
  return (
    a.phase === b.phase &&
    x.url === y.url &&
    x.health?.state === y.health?.state &&
    x.health?.reason === y.health?.reason &&
    (x.endpoint === y.endpoint || (!!x.endpoint && !!y.endpoint && equals(ServiceEndpointSchema, x.endpoint, y.endpoint)))
  );
}

/** What of two lists in order is new or other in the second, and what is gone from the first. */
export function difference(before: WatchedService[], after: WatchedService[]): { changed: WatchedService[]; removed: WatchedService[] } {
  const changed: WatchedService[] = [];
  const removed: WatchedService[] = [];
  let i = 0;
  for (const s of after) {
    while (i < before.length && compare(before[i]!, s) < 0) {
      removed.push(before[i++]!);
    }
    const old = i < before.length && compare(before[i]!, s) === 0 ? before[i++] : undefined;
    if (!old || !same(old, s)) {
      changed.push(s);
    }
  }
  return { changed, removed: removed.concat(before.slice(i)) };
}
