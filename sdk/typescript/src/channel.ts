// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import { Code, ConnectError, type Interceptor, type Transport } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import type { ClientHttp2Session, SecureClientSessionOptions } from "node:http2";

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

/**
 * Counts the calls for which there was a connection, and survives connections
 * that break at the wrong moment.
 */
class Sessions extends Http2SessionManager {
  reached = 0;

  constructor(...args: ConstructorParameters<typeof Http2SessionManager>) {
    super(...args);
    // The base class stops listening to a session that it gives up before the
    // session is done; an error after that would end the process. The version
    // that has this method is pinned, and a test holds the effect.
    const own = this as unknown as { setState(state: { conn?: unknown }): void };
    const base = own.setState.bind(this);
    own.setState = (state) => {
      if (state.conn instanceof Promise) {
        state.conn.then((session: ClientHttp2Session) => session.on("error", () => {}), () => {});
      }
      base(state);
    };
  }

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
    interceptors: [headers(target.token, options.userAgent ?? ""), lost],
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

/** A stream that the other end has reset, as one that speaks no HTTP/2 does, was not canceled by its caller. */
const lost: Interceptor = (next) => async (request) => {
  try {
    return await next(request);
  } catch (e) {
    const reset = e instanceof ConnectError && e.code === Code.Canceled && !e.metadata.has("grpc-status") && !request.signal.aborted;
    throw reset ? new ConnectError(e.rawMessage, Code.Unavailable, undefined, undefined, e) : e;
  }
};
