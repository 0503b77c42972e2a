// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import { open } from "node:fs/promises";
import { isAbsolute, join } from "node:path";

import { OptionError } from "./errors.js";

/** How to reach a gateway. Whatever is left out is looked for; see connect. */
export interface GatewayOptions {
  /**
   * "https://HOST:PORT" (TLS 1.2 or newer), or "http://HOST:PORT" for plain
   * text, which is refused for a host other than localhost, 127.0.0.0/8 or ::1
   * unless insecure is set. Without a port it is 443 or 80.
   */
  address?: string;
  /** The bearer token. An empty one sends none; only health works then. */
  token?: string;
  /** File with the bearer token. */
  tokenFile?: string;
  /** PEM certificates of the authorities that may sign the gateway's. */
  ca?: string | Uint8Array;
  /** File with them. Neither means those of Node.js. */
  caFile?: string;
  /** State directory of a gateway of this machine; goes before the environment. */
  stateDir?: string;
}

/** What was found. */
export interface Target {
  address: string;
  addressFrom: string;
  token: string;
  ca: string | Uint8Array | undefined;
  caFrom: string;
}

/** What a gateway is found in; tests give their own. */
export interface Surroundings {
  env: Readonly<Record<string, string | undefined>>;
  uid: number;
  /** Reads a file of at most so many bytes. */
  readFile(name: string, most: number): Promise<string>;
}

interface Layer {
  gateway: string;
  from: string;
  token: string;
  tokenFile: string;
  tokenFileFrom: string;
  ca: string | Uint8Array | undefined;
  caFile: string;
  caFrom: string;
  /** client.json: its token and CA are for its own gateway alone. */
  local: boolean;
}

/**
 * Looks in the options, the environment and client.json, in that order; an
 * explicit stateDir puts its client.json before the environment. What
 * client.json says of token and authority counts for its own address only, so
 * that no other gateway is sent the token of this machine's.
 */
export async function findGateway(options: GatewayOptions, around: Surroundings): Promise<Target> {
  if (options.ca !== undefined && options.caFile !== undefined) {
    throw new OptionError("ca", "is set together with caFile: give one of them");
  }
  const env = fromEnvironment(around.env);
  const given = fromOptions(options);
  const local = await fromStateDir(options, around);
  const order = options.stateDir ? [given, local, env] : [given, env, local];

  let named: Layer | undefined;
  for (const layer of order) {
    if (layer instanceof OptionError) {
      if (options.stateDir) {
        throw layer;
      }
    } else if (layer.gateway !== "") {
      named = layer;
      break;
    }
  }
  if (!named) {
    throw local instanceof OptionError ? local : new OptionError("address", "no gateway is named");
  }
  const target: Target = { address: named.gateway, addressFrom: named.from, token: "", ca: undefined, caFrom: "" };
  const explicit = options.token !== undefined;
  for (const layer of order) {
    if (layer instanceof OptionError || (layer.local && bare(layer.gateway) !== bare(target.address))) {
      continue;
    }
    if (target.ca === undefined) {
      [target.ca, target.caFrom] = [layer.ca ?? (await file(layer.caFile, layer.caFrom, "authority", around)), layer.caFrom];
    }
    if (target.token === "" && !(explicit && layer !== given)) {
      target.token = layer.token || (await file(layer.tokenFile, layer.tokenFileFrom, "token", around))?.trim() || "";
      if (target.token === "" && layer.tokenFile !== "") {
        throw new OptionError(layer.tokenFileFrom, `the token file ${layer.tokenFile} is empty`);
      }
    }
  }
  return target;
}

const bare = (address: string): string => address.replace(/\/$/, "");

const nothing: Layer = {
  gateway: "", from: "", token: "", tokenFile: "", tokenFileFrom: "", ca: undefined, caFile: "", caFrom: "", local: false,
};

function fromOptions(o: GatewayOptions): Layer {
  return {
    ...nothing, gateway: o.address ?? "", from: "address", token: o.token ?? "", tokenFile: o.tokenFile ?? "",
    tokenFileFrom: "tokenFile", ca: o.ca, caFile: o.caFile ?? "", caFrom: o.ca === undefined ? "caFile" : "ca",
  };
}

function fromEnvironment(env: Surroundings["env"]): Layer {
  return {
    ...nothing, gateway: env["SANDBOX_GATEWAY"] ?? "", from: "SANDBOX_GATEWAY", token: (env["SANDBOX_TOKEN"] ?? "").trim(),
    tokenFile: env["SANDBOX_TOKEN_FILE"] ?? "", tokenFileFrom: "SANDBOX_TOKEN_FILE",
    caFile: env["SANDBOX_CA_FILE"] ?? "", caFrom: "SANDBOX_CA_FILE",
  };
}

/** Reads client.json of the state directory, or says why there is none. */
async function fromStateDir(o: GatewayOptions, around: Surroundings): Promise<Layer | OptionError> {
  const dir = stateDir(o, around);
  if (dir === "") {
    return new OptionError("address", "no gateway is named, and without HOME there is no place to look for one");
  }
  const name = join(dir, "client.json");
  let text: string;
  try {
    text = await around.readFile(name, smallFile);
  } catch (cause) {
    const missing = (cause as NodeJS.ErrnoException).code === "ENOENT";
    const fault = missing ? `no gateway found in ${dir}: start one with \`sandbox-gateway serve\`, or give its address` : `cannot read ${name}`;
    return new OptionError(o.stateDir ? "stateDir" : "address", fault, { cause });
  }
  let c: { api?: unknown; ca_file?: unknown; token_file?: unknown } | null;
  try {
    c = JSON.parse(text);
  } catch (cause) {
    return new OptionError(name, "is not what a gateway writes", { cause });
  }
  if (typeof c?.api !== "string" || c.api === "") {
    return new OptionError(name, 'is not what a gateway writes: it has no "api"');
  }
  const within = (file: unknown): string => (typeof file !== "string" || file === "" ? "" : isAbsolute(file) ? file : join(dir, file));
  return {
    ...nothing, gateway: c.api, from: name, local: true,
    tokenFile: within(c.token_file), tokenFileFrom: name, caFile: within(c.ca_file), caFrom: name,
  };
}

/** Where a gateway of this machine keeps its state; empty: nowhere. */
function stateDir(o: GatewayOptions, { env, uid }: Surroundings): string {
  if (o.stateDir) {
    return o.stateDir;
  }
  if (env["SANDBOX_GATEWAY_STATE_DIR"]) {
    return env["SANDBOX_GATEWAY_STATE_DIR"];
  }
  if (uid === 0) {
    return "/var/lib/sandbox-gateway";
  }
  if (env["XDG_STATE_HOME"]) {
    return join(env["XDG_STATE_HOME"], "sandbox-gateway");
  }
  return env["HOME"] ? join(env["HOME"], ".local", "state", "sandbox-gateway") : "";
}

async function file(name: string, from: string, what: "authority" | "token", around: Surroundings): Promise<string | undefined> {
  const most = what === "token" ? smallFile : authoritiesFile;
  if (name === "") {
    return undefined;
  }
  try {
    return await around.readFile(name, most);
  } catch (cause) {
    throw new OptionError(from, `cannot read the ${what} in ${name}`, { cause });
  }
}

/** A token and a client.json fit in a page or two; of authorities a system has some hundred. */
const smallFile = 64 << 10;
const authoritiesFile = 1 << 20;

/** The process's own. */
export function surroundings(): Surroundings {
  return { env: process.env, uid: process.geteuid?.() ?? -1, readFile: readBounded };
}

async function readBounded(name: string, most: number): Promise<string> {
  const handle = await open(name);
  try {
    const buffer = Buffer.alloc(most + 1);
    let length = 0;
    for (let n = -1; n !== 0 && length < buffer.length; length += n) {
      n = (await handle.read(buffer, length, buffer.length - length)).bytesRead;
    }
    if (length > most) {
      throw new Error(`${name}: is larger than ${most >> 10} KiB`);
    }
    return buffer.toString("utf8", 0, length);
  } finally {
    await handle.close();
  }
}
