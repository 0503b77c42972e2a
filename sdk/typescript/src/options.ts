// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { type Duration, DurationSchema } from "@bufbuild/protobuf/wkt";

import type { WaitFailure, WaitServiceRequestSchema, WaitServiceResponse, WatchServicesRequestSchema } from "./gen/sandbox/v1/watch_pb.js";
import { milliseconds } from "./health.js";

/** What to wait for; the time limit is an option of the call. */
export type WaitRequest = Omit<MessageInitShape<typeof WaitServiceRequestSchema>, "timeout" | "$typeName" | "$unknown">;

/** How a call ends before its answer. */
export interface CallOptions {
  /** Ends the call with CanceledError, or TimeoutError for AbortSignal.timeout. */
  signal?: AbortSignal;
  /** Ends the call with TimeoutError after as many milliseconds; without it there is no limit. */
  timeoutMs?: number;
}

/** Which services to follow. */
export type WatchRequest = MessageInitShape<typeof WatchServicesRequestSchema>;

/** A protobuf duration of so many milliseconds. */
export function duration(ms: number): Duration {
  const nanos = Math.round(ms * 1e6);
  return create(DurationSchema, { seconds: BigInt(Math.floor(nanos / 1e9)), nanos: nanos % 1e9 });
}

/** How long a wait took, in milliseconds. */
export function elapsedMs(of: WaitServiceResponse | WaitFailure): number {
  return milliseconds(of.elapsed);
}
