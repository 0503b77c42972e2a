// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import { Code, ConnectError } from "@connectrpc/connect";

import { type WaitFailure, WaitFailureSchema } from "./gen/sandbox/v1/watch_pb.js";

/** gRPC's codes as words. */
export type ErrorCode =
  | "Canceled" | "Unknown" | "InvalidArgument" | "DeadlineExceeded" | "NotFound" | "AlreadyExists" | "PermissionDenied" | "ResourceExhausted"
  | "FailedPrecondition" | "Aborted" | "OutOfRange" | "Unimplemented" | "Internal" | "Unavailable" | "DataLoss" | "Unauthenticated";

/**
 * A call that failed. Its message says what was asked, what it is, and the
 * gateway's words, of which what is not printable is escaped.
 */
export class SandboxError extends Error {
  override name = "SandboxError";
  /** What was asked: "get service". */
  readonly op: string;
  /** What it is: "NotFound". */
  readonly code: ErrorCode;
  /** The gateway's words, or the connection's; may hold any character. */
  readonly details: string;

  constructor(op: string, code: ErrorCode, details: string, options?: ErrorOptions) {
    super(`sandbox: ${op}: ${words(code)}: ${printable(details)}`, options);
    this.op = op;
    this.code = code;
    this.details = details;
  }
}

/** No such sandbox or service. */
export class NotFoundError extends SandboxError {
  override name = "NotFoundError";
}
/** The name is taken. */
export class AlreadyExistsError extends SandboxError {
  override name = "AlreadyExistsError";
}
/** A field breaks a rule; the message names it. */
export class InvalidArgumentError extends SandboxError {
  override name = "InvalidArgumentError";
}
/** Not in this state. */
export class FailedPreconditionError extends SandboxError {
  override name = "FailedPreconditionError";
}
/** Somebody else's change came first: read, then try again. */
export class AbortedError extends SandboxError {
  override name = "AbortedError";
}
/** No token, or not this gateway's. */
export class UnauthenticatedError extends SandboxError {
  override name = "UnauthenticatedError";
}
/** The token is not for this. */
export class PermissionDeniedError extends SandboxError {
  override name = "PermissionDeniedError";
}
/** Not reachable, not trusted (TLS), or going away. */
export class UnavailableError extends SandboxError {
  override name = "UnavailableError";
}
/** The call's time is over. */
export class TimeoutError extends SandboxError {
  override name = "TimeoutError";
}
/** The signal was aborted, or the client closed. */
export class CanceledError extends SandboxError {
  override name = "CanceledError";
}
/** A limit of the gateway is reached. */
export class ResourceExhaustedError extends SandboxError {
  override name = "ResourceExhaustedError";
}
/** A gateway without this call. */
export class UnimplementedError extends SandboxError {
  override name = "UnimplementedError";
}

/** A wait of which the time is over. */
export class WaitTimeoutError extends TimeoutError {
  override name = "WaitTimeoutError";
  /**
   * What was waited for, how long in all, and what was seen last. lastHealth is
   * absent if the gateway could not be asked.
   */
  readonly failure: WaitFailure;

  constructor(op: string, details: string, failure: WaitFailure, options?: ErrorOptions) {
    super(op, "DeadlineExceeded", details, options);
    this.failure = failure;
  }
}

/** A wait for a state that cannot be reached any more: failure.cause says why. */
export class WaitEndedError extends FailedPreconditionError {
  override name = "WaitEndedError";
  /** What was waited for, how long in all, why it has ended, and what was seen last. */
  readonly failure: WaitFailure;

  constructor(op: string, details: string, failure: WaitFailure, options?: ErrorOptions) {
    super(op, "FailedPrecondition", details, options);
    this.failure = failure;
  }
}

/** An option of connect, or what discovery found for it, that cannot be used. */
export class OptionError extends Error {
  override name = "OptionError";
  /** Name of the option. */
  readonly option: string;

  constructor(option: string, fault: string, options?: ErrorOptions) {
    super(`sandbox: ${option}: ${fault}`, options);
    this.option = option;
  }
}

/**
 * A list whose gateway answered a page with the token that asked for it:
 * following it would never end.
 */
export class RepeatedPageError extends Error {
  override name = "RepeatedPageError";

  constructor() {
    super("sandbox: the gateway's next page is the same page");
  }
}

const classes: Partial<Record<ErrorCode, typeof SandboxError>> = {
  NotFound: NotFoundError,
  AlreadyExists: AlreadyExistsError,
  InvalidArgument: InvalidArgumentError,
  FailedPrecondition: FailedPreconditionError,
  Aborted: AbortedError,
  Unauthenticated: UnauthenticatedError,
  PermissionDenied: PermissionDeniedError,
  Unavailable: UnavailableError,
  DeadlineExceeded: TimeoutError,
  Canceled: CanceledError,
  ResourceExhausted: ResourceExhaustedError,
  Unimplemented: UnimplementedError,
};

/** Makes the error of a code. */
export function errorOf(op: string, code: ErrorCode, details: string, cause?: unknown): SandboxError {
  const options = cause === undefined ? undefined : { cause };
  return new (classes[code] ?? SandboxError)(op, code, details, options);
}

/** Turns what the transport throws into an error of this package. */
export function wrap(op: string, thrown: unknown, signal?: AbortSignal): SandboxError {
  if (thrown instanceof SandboxError) {
    return thrown;
  }
  if (signal?.aborted) {
    const timedOut = signal.reason instanceof DOMException && signal.reason.name === "TimeoutError";
    return errorOf(op, timedOut ? "DeadlineExceeded" : "Canceled", timedOut ? "the signal's time is over" : "the call was canceled", thrown);
  }
  const e = ConnectError.from(thrown, Code.Unavailable);
  const code = connectionLost(e) ? Code.Unavailable : e.code;
  return errorOf(op, Code[code] as ErrorCode, e.rawMessage, e);
}

/**
 * A failure of the connection is Unavailable, whatever the transport makes of
 * it: a certificate that is not trusted, a connection that ends, a stream that
 * the gateway's end has reset.
 */
function connectionLost(e: ConnectError): boolean {
  for (let cause: unknown = e.cause; cause instanceof Error; cause = cause.cause) {
    const code = (cause as NodeJS.ErrnoException).code;
    if (typeof code === "string" && code !== "ERR_STREAM_WRITE_AFTER_END") {
      return true;
    }
  }
  return false;
}

/** The failure that an error of a wait carries. */
export function waitFailureOf(e: SandboxError): WaitFailure | undefined {
  return e.cause instanceof ConnectError ? e.cause.findDetails(WaitFailureSchema)[0] : undefined;
}

const repeatable = new Set<ErrorCode>(["Unavailable", "Internal", "Unknown", "Aborted", "DeadlineExceeded", "Canceled"]);

/** Whether a call that failed so may succeed when it is repeated. */
export function isTransient(e: SandboxError): boolean {
  return repeatable.has(e.code);
}

function words(code: ErrorCode): string {
  return code.replace(/(?!^)[A-Z]/g, " $&").toLowerCase();
}

/** Quotes a text with characters that do not belong on a terminal, and escapes them. */
export function printable(text: string): string {
  if (!hidden.test(text)) {
    return text;
  }
  const escaped = text.replace(/["\\]/g, "\\$&").replace(new RegExp(hidden, "gu"), (c) => `\\u{${c.codePointAt(0)!.toString(16)}}`);
  return `"${escaped}"`;
}

const hidden = /[\p{C}\p{Zl}\p{Zp}\ufffd]/u;
