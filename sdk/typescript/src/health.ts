// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import type { Duration, Timestamp } from "@bufbuild/protobuf/wkt";

import { type ServiceEndpointResponse, ServiceHealthState } from "./gen/openshell/v1/openshell_pb.js";

/** Whether a service passes its check. */
export type HealthState = "unknown" | "healthy" | "unhealthy";

/** A service's health as the gateway answered it. */
export interface Health {
  readonly state: HealthState;
  /**
   * What the state is about: true when the service has a readiness check (it
   * answers 2xx on its path), false when it only has to answer.
   */
  readonly ready: boolean;
  /** One word of a closed list that may grow; empty if none was given. */
  readonly reason: string;
  /** One sentence of the gateway's. May hold any character: escape it for a terminal. */
  readonly message: string;
  /** Status code of the latest attempt; undefined if it got none. */
  readonly httpStatus: number | undefined;
  /** Failures in a row, as far as they count towards unhealthy. */
  readonly failures: number;
  /** When the latest attempt ended, on the gateway's clock, to the millisecond; undefined if never. */
  readonly lastChecked: Date | undefined;
  /** When the state last changed, on the gateway's clock, to the millisecond; undefined if never. */
  readonly lastTransition: Date | undefined;
  /** Latency of the latest attempt in milliseconds, with fractions; 0 if there was none. */
  readonly latencyMs: number;
  /** The loopback address that answered ("127.0.0.1" or "::1"), or empty. */
  readonly address: string;
}

/**
 * Reads the health in an answer. No answer, no health in it, an unspecified
 * state and a state that this version does not know all are "unknown".
 */
export function healthOf(answer: ServiceEndpointResponse | undefined): Health {
  const h = answer?.health;
  return {
    state: stateOf(h?.state),
    ready: answer?.endpoint?.readinessCheck !== undefined,
    reason: h?.reason ?? "",
    message: h?.message ?? "",
    httpStatus: h?.httpStatusCode,
    failures: h?.consecutiveFailures ?? 0,
    lastChecked: instant(h?.lastCheckedTime),
    lastTransition: instant(h?.lastTransitionTime),
    latencyMs: milliseconds(h?.latency),
    address: h?.address ?? "",
  };
}

function stateOf(state: ServiceHealthState | undefined): HealthState {
  switch (state) {
    case ServiceHealthState.HEALTHY:
      return "healthy";
    case ServiceHealthState.UNHEALTHY:
      return "unhealthy";
    default:
      return "unknown";
  }
}

// The years 1 to 9999, as protobuf has them.
const firstSecond = -62_135_596_800n;
const lastSecond = 253_402_300_799n;

/** Undefined for an absent timestamp or one out of range. */
export function instant(t: Timestamp | undefined): Date | undefined {
  if (!t || t.seconds < firstSecond || t.seconds > lastSecond || t.nanos < 0 || t.nanos > 999_999_999) {
    return undefined;
  }
  return new Date(Number(t.seconds) * 1000 + Math.floor(t.nanos / 1e6));
}

const mostSeconds = 315_576_000_000n;

/** 0 for an absent duration or one out of range. */
export function milliseconds(d: Duration | undefined): number {
  if (!d) {
    return 0;
  }
  const s = d.seconds;
  const mixed = (s > 0n && d.nanos < 0) || (s < 0n && d.nanos > 0);
  if (s > mostSeconds || s < -mostSeconds || Math.abs(d.nanos) > 999_999_999 || mixed) {
    return 0;
  }
  return Number(s) * 1000 + d.nanos / 1e6;
}
