// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import { create } from "@bufbuild/protobuf";
import { type Client as ConnectClient } from "@connectrpc/connect";

import type { Channel } from "./channel.js";
import { type Clock, pause, redialAfter } from "./clock.js";
import { isTransient, type SandboxError, WaitEndedError, waitFailureOf, WaitTimeoutError, wrap } from "./errors.js";
import {
  type ServiceHealthWatch,
  type WaitFailure,
  WaitFailureCause,
  WaitFailureSchema,
  type WaitServiceResponse,
} from "./gen/sandbox/v1/watch_pb.js";
import { type CallOptions, duration, type WaitRequest } from "./options.js";

const op = "wait for service";

/**
 * How many milliseconds longer than the timeout that the gateway knows of a
 * call may take, so that it is the gateway that answers.
 */
const graceMs = 2000;

/** Waits on one gateway, over as many calls as it takes. */
export async function waitForService(
  api: ConnectClient<typeof ServiceHealthWatch>,
  channel: Channel,
  clock: Clock,
  request: WaitRequest,
  { signal, timeoutMs }: CallOptions,
): Promise<WaitServiceResponse> {
  const began = clock.now();
  const left = (): number => Math.max((timeoutMs ?? 0) - (clock.now() - began), 0);
  for (let failures = 0; ; failures++) {
    const before = channel.reached();
    const limits = timeoutMs === undefined ? {} : { timeoutMs: Math.ceil(left()) + graceMs };
    let error: SandboxError;
    try {
      const timeout = timeoutMs === undefined ? {} : { timeout: duration(left()) };
      const response = await api.waitService({ ...request, ...timeout }, { ...(signal && { signal }), ...limits });
      response.elapsed = duration(clock.now() - began);
      return response;
    } catch (thrown) {
      error = waitError(request, clock.now() - began, thrown, signal);
    }
    const over = error instanceof WaitTimeoutError || error instanceof WaitEndedError;
    if (over || signal?.aborted || !isTransient(error) || (failures === 0 && channel.reached() === before)) {
      throw error;
    }
    if (timeoutMs !== undefined && left() === 0) {
      throw timedOut(request, clock.now() - began, error);
    }
    const ms = timeoutMs === undefined ? redialAfter(failures) : Math.min(redialAfter(failures), left());
    await pause(clock, ms, signal).catch((reason) => {
      throw wrap(op, reason, signal);
    });
  }
}

/** The error of a wait that took so many milliseconds. */
function waitError(request: WaitRequest, elapsedMs: number, thrown: unknown, signal?: AbortSignal): SandboxError {
  const e = wrap(op, thrown, signal);
  const failure = waitFailureOf(e);
  if (failure) {
    failure.elapsed = duration(elapsedMs);
    const kind = e.code === "FailedPrecondition" ? WaitEndedError : WaitTimeoutError;
    return new kind(op, e.details, failure, { cause: e.cause });
  }
  return e.code === "DeadlineExceeded" && !signal?.aborted ? timedOut(request, elapsedMs, e) : e;
}

/** The error of a wait of which the gateway has said nothing to the end. */
function timedOut(request: WaitRequest, elapsedMs: number, cause: SandboxError): WaitTimeoutError {
  const scope = request.workspaceScope?.selection;
  const failure: WaitFailure = create(WaitFailureSchema, {
    cause: WaitFailureCause.TIMEOUT,
    workspace: scope?.case === "workspace" ? scope.value : "",
    sandbox: request.sandbox ?? "",
    name: request.name ?? "",
    states: request.states ?? [],
    elapsed: duration(elapsedMs),
  });
  const target = `service ${JSON.stringify(failure.name)} of sandbox ${JSON.stringify(failure.sandbox)}`;
  const text = `the gateway has not said within ${(elapsedMs / 1000).toFixed(2)}s how ${target} is`;
  return new WaitTimeoutError(op, text, failure, { cause });
}
