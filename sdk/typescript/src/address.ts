// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

/** A parsed address of a gateway. */
export interface Address {
  /** Without brackets. */
  host: string;
  port: number;
  secure: boolean;
  /** "https://HOST:PORT" or "http://HOST:PORT". */
  url: string;
}

const form = 'must be "https://HOST:PORT", or "http://HOST:PORT" on this machine';

/**
 * Reads "https://HOST[:PORT]" or "http://HOST[:PORT]"; without a port it is 443
 * or 80. Returns a text if it is wrong, which does not repeat the input.
 */
export function parseAddress(text: string): Address | string {
  // The URL parser forgives what is not to be forgiven here.
  const match = /^(https?):\/\/(\[[0-9a-fA-F:.]+\]|[^\s/?#@:[\]]+)(?::([0-9]{1,5}))?(\/?)$/.exec(text);
  if (!match) {
    return /^https?:\/\/[^/?#\s]+[/?#]|@/.test(text) ? "must end after the port: no user, path, query or fragment" : form;
  }
  const secure = match[1] === "https";
  const host = match[2]!;
  const port = match[3] === undefined ? (secure ? 443 : 80) : Number(match[3]);
  if (port < 1 || port > 65535) {
    return "port must be a number from 1 to 65535";
  }
  return { host: host.replace(/^\[|\]$/g, ""), port, secure, url: `${secure ? "https" : "http"}://${host}:${port}` };
}

/** Whether the host is this machine by its spelling alone; no name is looked up. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}$/.test(host);
}
