// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

export {
  AbortedError,
  AlreadyExistsError,
  CanceledError,
  type ErrorCode,
  FailedPreconditionError,
  InvalidArgumentError,
  NotFoundError,
  OptionError,
  PermissionDeniedError,
  printable,
  RepeatedPageError,
  ResourceExhaustedError,
  SandboxError,
  TimeoutError,
  UnauthenticatedError,
  UnavailableError,
  UnimplementedError,
  WaitEndedError,
  WaitTimeoutError,
} from "./errors.js";
