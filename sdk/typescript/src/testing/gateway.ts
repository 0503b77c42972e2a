// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import { clone, create, type MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError, type ConnectRouter, createRouterTransport, type Interceptor } from "@connectrpc/connect";

import type { Channel } from "../channel.js";
import { Client } from "../client.js";
import { type Clock, systemClock } from "../clock.js";
import type { ErrorCode } from "../errors.js";
import {
  type HealthResponse,
  HealthResponseSchema,
  OpenShell,
  SandboxSchema,
  ServiceEndpointSchema,
  ServiceHealthSchema,
  ServiceStatus,
} from "../gen/openshell/v1/openshell_pb.js";
import { ListServiceTransitionsResponseSchema, ServiceHealthWatch } from "../gen/sandbox/v1/watch_pb.js";
import { callsOf } from "./calls.js";
import { key, Store, workspaceOr } from "./store.js";
import { Follower } from "./watch.js";

/** Options of a fake gateway. */
export interface FakeOptions {
  /** Entries on a page, at most; 100 without it. */
  pageSize?: number;
  /** Heartbeats of watches, time limits of waits and ages go by it; the machine's without it. */
  clock?: Clock;
  /** Times of objects, in milliseconds since 1970; Date.now without it. */
  now?: () => number;
}

/** What a call ends with. */
export interface FakeFailure {
  code: ErrorCode;
  message: string;
}

/**
 * The API in memory, without agents, stores or sandboxes. Objects come from
 * calls, or from the put methods; health is what setHealth said last and does
 * not age; nothing happens by itself, but for the heartbeats of watches.
 *
 * It keeps the rules that a client can see: names taken, names missing, the port
 * range, workspaces, label selectors, pages. It is no judge of paths, names or
 * request ids, and asks for no token.
 */
export class FakeGateway {
  /** What was asked so far, in the order of arrival, refused calls too. */
  readonly requests: { method: string; message: unknown }[] = [];
  readonly #clock: Clock;
  readonly #store: Store;
  readonly #follower: Follower;
  readonly #failures = new Map<string, FakeFailure>();
  readonly #hanging = new Map<string, () => void>();
  readonly #pageSize: number;
  #own: HealthResponse = create(HealthResponseSchema, { status: ServiceStatus.HEALTHY, version: "0.0.0-fake" });
  #reached = 0;
  #down = false;

  constructor(options: FakeOptions = {}) {
    this.#clock = options.clock ?? systemClock;
    this.#pageSize = options.pageSize ?? 100;
    this.#store = new Store(options.now ?? Date.now);
    this.#follower = new Follower(this.#store, this.#clock, options.now ?? Date.now);
  }

  /** A client of this gateway; close() ends its calls alone. */
  client(): Client {
    const routes = (router: ConnectRouter): void => {
      router.service(OpenShell, callsOf(this.#store, this.#pageSize, () => this.#follower.notify(), () => clone(HealthResponseSchema, this.#own)));
      router.service(ServiceHealthWatch, this.#follower.calls());
    };
    const transport = createRouterTransport(routes, { transport: { interceptors: [this.#admit()] } });
    const channel: Channel = { transport, reached: () => this.#reached, close: () => {} };
    return Client.over(channel, this.#clock);
  }

  /** Stores a sandbox as it is, under the workspace and name of its metadata. */
  putSandbox(sandbox: MessageInitShape<typeof SandboxSchema>): void {
    const s = create(SandboxSchema, sandbox);
    this.#store.sandboxes.set(key(workspaceOr(s.metadata?.workspace), s.metadata?.name ?? ""), s);
    this.#follower.notify();
  }

  /** Stores a service and its health as they are; without health none is answered. */
  putService(endpoint: MessageInitShape<typeof ServiceEndpointSchema>, health?: MessageInitShape<typeof ServiceHealthSchema>): void {
    const e = create(ServiceEndpointSchema, endpoint);
    const k = key(workspaceOr(e.metadata?.workspace), e.sandbox, e.name);
    this.#store.services.set(k, { endpoint: e, health: health && create(ServiceHealthSchema, health) });
    this.#follower.notify();
  }

  /** Replaces the health of a service; undefined: none is answered. */
  setHealth(target: { workspace?: string; sandbox: string; service?: string }, health: MessageInitShape<typeof ServiceHealthSchema> | undefined): void {
    const k = key(workspaceOr(target.workspace), target.sandbox, target.service);
    const stored = this.#store.services.get(k);
    if (!stored) {
      throw new Error(`there is no service ${JSON.stringify(target)}`);
    }
    stored.health = health && create(ServiceHealthSchema, health);
    this.#follower.notify();
  }

  /** Replaces what health answers. */
  setOwnHealth(health: MessageInitShape<typeof HealthResponseSchema>): void {
    this.#own = create(HealthResponseSchema, health);
  }

  /** Stores the history of a service. */
  putTransitions(
    target: { workspace?: string; sandbox: string; service?: string },
    transitions: MessageInitShape<typeof ListServiceTransitionsResponseSchema>,
  ): void {
    const k = key(workspaceOr(target.workspace), target.sandbox, target.service);
    this.#follower.transitions.set(k, create(ListServiceTransitionsResponseSchema, transitions));
  }

  /** Makes every call of a method ("getService") end so; undefined heals it. */
  fail(method: string, failure: FakeFailure | undefined): void {
    if (failure) {
      this.#failures.set(method, failure);
    } else {
      this.#failures.delete(method);
    }
  }

  /** Makes every call of a method wait until its caller gives up. Resolves when the first such call has arrived. */
  hang(method: string): Promise<void> {
    return new Promise((resolve) => this.#hanging.set(method, resolve));
  }

  /** Makes every new call fail as if nobody listened, until the returned function is called. */
  goDown(): () => void {
    this.#down = true;
    return () => (this.#down = false);
  }

  /**
   * Makes open and new watches say nothing any more, not even that the gateway
   * lives, until the returned function is called.
   */
  muteWatches(): () => void {
    return this.#follower.mute();
  }

  /** Ends open watches and waits; a gateway that stops does so with Unavailable. */
  breakWatches(failure: FakeFailure = { code: "Unavailable", message: "the gateway is stopping" }): void {
    this.#follower.break(new ConnectError(failure.message, Code[failure.code]));
  }

  /** How many watches and waits are open. */
  get watches(): number {
    return this.#follower.open;
  }

  #admit(): Interceptor {
    return (next) => async (request) => {
      const method = request.method.localName;
      if (this.#down) {
        throw new ConnectError("connect ECONNREFUSED", Code.Unavailable);
      }
      this.#reached++;
      this.requests.push({ method, message: request.stream ? undefined : request.message });
      const failure = this.#failures.get(method);
      if (failure) {
        throw new ConnectError(failure.message, Code[failure.code]);
      }
      const arrived = this.#hanging.get(method);
      if (arrived) {
        arrived();
        await new Promise((_, reject) => {
          request.signal.addEventListener("abort", () => reject(request.signal.reason), { once: true });
        });
      }
      return next(request);
    };
  }
}
