// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import { type Client as ConnectClient } from "@connectrpc/connect";

import { type Clock, pause, redialAfter } from "./clock.js";
import { errorOf, isTransient, type SandboxError, wrap } from "./errors.js";
import type { ServiceHealthWatch } from "./gen/sandbox/v1/watch_pb.js";
import { link, type Linked } from "./signals.js";
import { difference, type WatchedService, WatchState, watchTimeoutMs } from "./watch-state.js";

/** What is new in a watch. */
export interface ServiceUpdate {
  /**
   * Services that are new, or of which the state, the reason, the endpoint or
   * the sandbox's phase is another than in the updates before. The first update
   * that is connected has all services.
   */
  readonly changed: readonly WatchedService[];
  /** Those that are gone, as they were last. */
  readonly removed: readonly WatchedService[];
  /**
   * Whether the gateway is being heard. While it is not, what it said counts
   * for watchTimeoutMs; then an update makes every service unknown.
   */
  readonly connected: boolean;
  /** Why it is not connected. */
  readonly error: SandboxError | undefined;
}

type Call = (signal: AbortSignal) => ReturnType<ConnectClient<typeof ServiceHealthWatch>["watchServices"]>;

const op = "watch services";

/**
 * Follows the health of services. It belongs to whoever began it, who ends it
 * with close(), with the signal, or by leaving a loop over it:
 *
 *     for await (const update of client.watchServices({ sandbox: "web" })) { … }
 *
 * The watch reads eagerly and keeps the newest state alone: whoever is slow
 * delays nothing, and misses what has come and gone in between. It connects
 * again by itself, for ever; then the next update is the difference to what was
 * told before, as if there had been no gap.
 *
 * A gateway that cannot be reached is an update, not an error. Errors end the
 * watch: CanceledError after the signal, and what repeating would not heal
 * (InvalidArgumentError, UnauthenticatedError, PermissionDeniedError,
 * ResourceExhaustedError, UnimplementedError). After close() it is done.
 */
export class ServiceWatch implements AsyncIterableIterator<ServiceUpdate, undefined>, AsyncDisposable {
  readonly #call: Call;
  readonly #clock: Clock;
  readonly #closes = new AbortController();
  readonly #signal: AbortSignal;
  readonly #ends: AbortSignal; // either
  readonly #state = new WatchState();
  readonly #over: Promise<void>;
  #failure: SandboxError | undefined;
  #ended = false;
  #wake: () => void = () => {};

  // What next has told.
  #told: WatchedService[] = [];
  #connected = false;
  #complete = false;
  #failed = false;

  /** @internal */
  static begin(call: Call, clock: Clock, outer: Linked): ServiceWatch {
    return new ServiceWatch(call, clock, outer);
  }

  private constructor(call: Call, clock: Clock, outer: Linked) {
    this.#call = call;
    this.#clock = clock;
    this.#signal = outer.signal;
    const both = link(outer.signal, this.#closes.signal);
    this.#ends = both.signal;
    this.#over = this.#run().finally(() => {
      both.release();
      outer.release();
      this.#ended = true;
      this.#wake();
    });
  }

  /**
   * All services as they are known now, in the order of workspace, sandbox and
   * name; nothing before the first full state has come.
   */
  services(): WatchedService[] {
    return this.#state.at(this.#clock.now());
  }

  /** Waits until something is new. Call it again once the promise before is settled. */
  async next(): Promise<IteratorResult<ServiceUpdate, undefined>> {
    for (;;) {
      const now = this.#clock.now();
      const update = this.#look(now);
      if (update) {
        return { done: false, value: update };
      }
      if (this.#ended) {
        if (this.#failure) {
          throw this.#failure;
        }
        return { done: true, value: undefined };
      }
      const expires = this.#state.expires();
      await new Promise<void>((resolve) => {
        const stop = expires > now ? this.#clock.after(expires - now, resolve) : () => {};
        this.#wake = () => {
          stop();
          resolve();
        };
      });
      this.#wake = () => {};
    }
  }

  /** Ends the watch; resolves once nothing of it is left. */
  async close(): Promise<void> {
    this.#closes.abort();
    await this.#over;
  }

  /** Called when a loop is left. */
  async return(): Promise<IteratorResult<ServiceUpdate, undefined>> {
    await this.close();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Compares what is known at now with what was told. */
  #look(now: number): ServiceUpdate | undefined {
    const { connected, complete, error } = this.#state;
    if (this.#ended) {
      return undefined;
    }
    const list = this.#state.at(now);
    const update = { ...difference(this.#told, list), connected, error };
    const news =
      update.changed.length + update.removed.length > 0 ||
      connected !== this.#connected ||
      complete !== this.#complete ||
      (error !== undefined && !this.#failed);
    this.#told = list;
    this.#connected = connected;
    this.#complete = complete;
    this.#failed = error !== undefined;
    return news ? update : undefined;
  }

  /** Keeps a stream open until the watch is ended, or a failure that repeating does not heal. */
  async #run(): Promise<void> {
    for (let failures = 0; ; failures++) {
      const { heard, error } = await this.#follow();
      if (this.#ends.aborted) {
        this.#failure = this.#signal.aborted ? wrap(op, this.#signal.reason, this.#signal) : undefined;
        return;
      }
      if (!isTransient(error)) {
        this.#failure = error;
        return;
      }
      if (heard) {
        failures = 0;
      }
      this.#state.lost(error);
      this.#wake();
      await pause(this.#clock, redialAfter(failures), this.#ends).catch(() => {});
    }
  }

  /** Opens one stream and takes its messages until it ends, or is silent for watchTimeoutMs. */
  async #follow(): Promise<{ heard: boolean; error: SandboxError }> {
    const silence = new AbortController();
    const { signal, release } = link(this.#ends, silence.signal);
    const leave = (): void => silence.abort();
    let stop = this.#clock.after(watchTimeoutMs, leave);
    let heard = false;
    try {
      this.#state.begin();
      for await (const m of this.#call(signal)) {
        stop();
        stop = this.#clock.after(watchTimeoutMs, leave);
        heard = true;
        const fault = this.#state.take(m, this.#clock.now());
        this.#wake();
        if (fault !== undefined) {
          return { heard, error: errorOf(op, "Unavailable", fault) };
        }
      }
      return { heard, error: errorOf(op, "Unavailable", "the gateway has ended the stream") };
    } catch (thrown) {
      return { heard, error: silence.signal.aborted ? errorOf(op, "Unavailable", "the gateway has said nothing for 15 seconds") : wrap(op, thrown) };
    } finally {
      stop();
      release();
    }
  }
}
