// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import type { Interceptor, Transport } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import type { SecureClientSessionOptions } from "node:http2";

import { isLoopback, parseAddress } from "./address.js";
import type { Target } from "./discovery.js";
import { OptionError } from "./errors.js";

/** What a client speaks through. */
export interface Channel {
  readonly transport: Transport;
  /** How many calls have reached the gateway so far, answered or not. */
  readonly reached: () => number;
  /** Ends the connection and all calls. */
  readonly close: () => void;
}

// A gateway refuses pings that come more often than every 20 s, or without a
// call under way.
const pingIntervalMs = 25_000;
const pingTimeoutMs = 10_000;
/** A page of 1,000 entries fits. */
const readMaxBytes = 16 << 20;

/** Counts the calls for which there was a connection. */
class Sessions extends Http2SessionManager {
  reached = 0;

  override async request(...args: Parameters<Http2SessionManager["request"]>): ReturnType<Http2SessionManager["request"]> {
    const stream = await super.request(...args);
    this.reached++;
    return stream;
  }
}

/** Checks a target. Nothing is dialled before the first call. */
export function channelTo(target: Target, options: { insecure?: boolean; userAgent?: string }): Channel {
  const address = parseAddress(target.address);
  if (typeof address === "string") {
    throw new OptionError(target.addressFrom, address);
  }
  if (!address.secure && !isLoopback(address.host) && !options.insecure) {
    throw new OptionError(target.addressFrom, "plain text (http) is for this machine only: use https");
  }
  if (/[^!-~]/.test(target.token)) {
    throw new OptionError("token", "holds a character that no token has (space, control or not ASCII)");
  }
  const tls: SecureClientSessionOptions = { minVersion: "TLSv1.2" };
  if (address.secure && target.ca !== undefined) {
    const pem = typeof target.ca === "string" ? target.ca : Buffer.from(target.ca).toString("latin1");
    if (!pem.includes("-----BEGIN CERTIFICATE-----")) {
      throw new OptionError(target.caFrom, "holds no PEM certificate");
    }
    tls.ca = pem;
  }
  const sessions = new Sessions(address.url, { pingIntervalMs, pingTimeoutMs }, tls);
  const transport = createGrpcTransport({
    baseUrl: address.url,
    sessionManager: sessions,
    interceptors: [headers(target.token, options.userAgent ?? "")],
    readMaxBytes,
  });
  return { transport, reached: () => sessions.reached, close: () => sessions.abort() };
}

function headers(token: string, userAgent: string): Interceptor {
  return (next) => (request) => {
    if (token !== "") {
      request.header.set("authorization", `Bearer ${token}`);
    }
    if (userAgent !== "") {
      request.header.set("user-agent", `${userAgent} ${request.header.get("user-agent") ?? ""}`.trim());
    }
    return next(request);
  };
}
