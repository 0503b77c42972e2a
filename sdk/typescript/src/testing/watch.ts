// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import { clone, create, equals } from "@bufbuild/protobuf";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";

import type { Clock } from "../clock.js";
import { SandboxPhase, type ServiceEndpointResponse, ServiceEndpointSchema, type ServiceHealth, ServiceHealthState } from "../gen/openshell/v1/openshell_pb.js";
import {
  type ListServiceTransitionsResponse,
  ListServiceTransitionsResponseSchema,
  type ServiceHealthWatch,
  WaitFailureCause,
  WaitFailureSchema,
  type WaitServiceRequest,
  type WaitServiceResponse,
  WaitServiceResponseSchema,
  type WatchServicesRequest,
  type WatchServicesResponse,
  WatchServicesResponseSchema,
} from "../gen/sandbox/v1/watch_pb.js";
import { instant, milliseconds } from "../health.js";
import { duration } from "../options.js";
import { link } from "../signals.js";
import { noService } from "./calls.js";
import { inScope, key, oneWorkspace, selected, type Store } from "./store.js";

const heartbeatMs = 4000;

/** A service and the phase of its sandbox, as a watch has sent them. */
interface Sent {
  number: number;
  service: ServiceEndpointResponse;
  phase: SandboxPhase;
}

/** The calls of sandbox.v1 over a store. */
export class Follower {
  readonly transitions = new Map<string, ListServiceTransitionsResponse>();
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #now: () => number;
  readonly #callers = new Set<AbortController>();
  #waiting: (() => void)[] = [];
  #muted = 0;

  constructor(store: Store, clock: Clock, now: () => number) {
    this.#store = store;
    this.#clock = clock;
    this.#now = now;
  }

  get open(): number {
    return this.#callers.size;
  }

  /** Wakes whoever waits for a change. */
  notify(): void {
    const woken = this.#waiting;
    this.#waiting = [];
    woken.forEach((wake) => wake());
  }

  mute(): () => void {
    this.#muted++;
    let once = true;
    return () => {
      if (once) {
        once = false;
        this.#muted--;
        this.notify();
      }
    };
  }

  break(reason: ConnectError): void {
    this.#callers.forEach((c) => c.abort(reason));
  }

  calls(): ServiceImpl<typeof ServiceHealthWatch> {
    return {
      watchServices: (r, context) => this.#watch(r, context.signal),
      waitService: (r, context) => this.#wait(r, context.signal),
      listServiceTransitions: (r) => {
        const k = key(oneWorkspace(r.workspaceScope), r.sandbox, r.name);
        if (!this.#store.services.has(k)) {
          throw noService(k);
        }
        const known = this.transitions.get(k) ?? create(ListServiceTransitionsResponseSchema);
        const out = clone(ListServiceTransitionsResponseSchema, known);
        out.recordedSince ??= this.#store.time();
        out.readTime ??= this.#store.time();
        out.service = this.#store.answer(k);
        return out;
      },
    };
  }

  /** Resolves after a change, after ms, or when the signal is aborted. */
  #sleep(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const stop = ms === Infinity ? () => {} : this.#clock.after(ms, woken);
      signal.addEventListener("abort", woken, { once: true });
      this.#waiting.push(woken);
      function woken(): void {
        stop();
        signal.removeEventListener("abort", woken);
        resolve();
      }
    });
  }

  /** The state, then its changes, and a heartbeat every four seconds. */
  async *#watch(r: WatchServicesRequest, outer: AbortSignal): AsyncGenerator<WatchServicesResponse> {
    const caller = new AbortController();
    const { signal, release } = link(outer, caller.signal);
    this.#callers.add(caller);
    try {
      const sent = new Map<string, Sent>();
      const numbers = { last: 0 };
      let sequence = 0n;
      for (let due = this.#clock.now(); ; ) {
        if (this.#muted === 0) {
          const m = this.#compare(r, sent, numbers);
          if (m.services.length + m.removed.length > 0 || this.#clock.now() >= due) {
            m.sequence = ++sequence;
            yield m;
          }
        }
        if (this.#clock.now() >= due) {
          due = this.#clock.now() + heartbeatMs;
        }
        if (!signal.aborted) {
          await this.#sleep(due - this.#clock.now(), signal);
        }
        if (signal.aborted) {
          throw caller.signal.aborted ? caller.signal.reason : new ConnectError("the caller has left", Code.Canceled);
        }
      }
    } finally {
      release();
      this.#callers.delete(caller);
    }
  }

  /** Makes a message of what is other than what was sent. */
  #compare(r: WatchServicesRequest, sent: Map<string, Sent>, numbers: { last: number }): WatchServicesResponse {
    const m = create(WatchServicesResponseSchema, { complete: true });
    for (const [k, old] of sent) {
      const stored = this.#store.services.get(k);
      if (!stored || !this.#watched(r, k) || stored.endpoint.metadata?.id !== old.service.endpoint?.metadata?.id) {
        m.removed.push(old.number);
        sent.delete(k);
      }
    }
    for (const k of [...this.#store.services.keys()].sort()) {
      if (!this.#watched(r, k)) {
        continue;
      }
      const old = sent.get(k);
      const service = this.#store.answer(k);
      const now = { number: old?.number ?? numbers.last + 1, service, phase: this.#store.sandboxOf(k)?.status?.phase ?? SandboxPhase.UNSPECIFIED };
      const ageMs = this.#age(service.health);
      const aged = ageMs === undefined ? {} : { ageMs };
      if (old && unchanged(old, now)) {
        if (ageMs !== undefined) {
          m.ages.push({ $typeName: "sandbox.v1.ServiceAge", number: now.number, ageMs });
        }
        continue;
      }
      numbers.last = Math.max(numbers.last, now.number);
      sent.set(k, now);
      m.services.push({ $typeName: "sandbox.v1.WatchedService", number: now.number, service, sandboxPhase: now.phase, ...aged });
    }
    return m;
  }

  #age(h: ServiceHealth | undefined): number | undefined {
    const checked = instant(h?.lastCheckedTime);
    return checked && Math.max(Math.round(this.#now() - checked.getTime()), 0);
  }

  #watched(r: WatchServicesRequest, k: string): boolean {
    const [, sandbox, service] = k.split("\0");
    return (
      inScope(r.workspaceScope, k) &&
      (r.sandbox === "" || r.sandbox === sandbox) &&
      (r.services.length === 0 || r.services.includes(service!)) &&
      selected(r.labelSelector, this.#store.sandboxOf(k)?.metadata?.labels)
    );
  }

  async #wait(r: WaitServiceRequest, outer: AbortSignal): Promise<WaitServiceResponse> {
    const caller = new AbortController();
    const { signal, release } = link(outer, caller.signal);
    this.#callers.add(caller);
    try {
      const began = this.#clock.now();
      const limit = r.timeout ? began + milliseconds(r.timeout) : Infinity;
      const k = key(oneWorkspace(r.workspaceScope), r.sandbox, r.name);
      const look = new Look(this.#store, r, k, () => this.#clock.now() - began);
      for (;;) {
        const answer = look.answer();
        if (answer) {
          return answer;
        }
        if (this.#clock.now() >= limit) {
          throw look.failure(Code.DeadlineExceeded, WaitFailureCause.TIMEOUT);
        }
        await this.#sleep(limit - this.#clock.now(), signal);
        if (signal.aborted) {
          throw caller.signal.aborted ? caller.signal.reason : new ConnectError("the caller has left", Code.Canceled);
        }
      }
    } finally {
      release();
      this.#callers.delete(caller);
    }
  }
}

/** One wait's looks at its service. */
class Look {
  #found = false;
  #health: ServiceHealth | undefined;
  #phase = SandboxPhase.UNSPECIFIED;

  constructor(
    private readonly store: Store,
    private readonly request: WaitServiceRequest,
    private readonly key: string,
    private readonly elapsed: () => number,
  ) {}

  /** The answer if there is one; throws if there never will be. */
  answer(): WaitServiceResponse | undefined {
    const sandbox = this.store.sandboxOf(this.key);
    if (!this.store.services.has(this.key)) {
      if (!this.#found) {
        throw noService(this.key);
      }
      throw this.failure(Code.FailedPrecondition, sandbox ? WaitFailureCause.SERVICE_DELETED : WaitFailureCause.SANDBOX_DELETED);
    }
    const service = this.store.answer(this.key);
    this.#found = true;
    this.#health = service.health;
    this.#phase = sandbox?.status?.phase ?? SandboxPhase.UNSPECIFIED;
    if (this.#wanted().includes(service.health?.state ?? ServiceHealthState.UNSPECIFIED)) {
      return create(WaitServiceResponseSchema, { service, sandboxPhase: this.#phase, elapsed: duration(this.elapsed()) });
    }
    const cause = ends.get(this.#phase);
    if (cause !== undefined) {
      throw this.failure(Code.FailedPrecondition, cause);
    }
    return undefined;
  }

  /** The status of a wait that has ended, with its detail. */
  failure(code: Code, cause: WaitFailureCause): ConnectError {
    const [workspace, sandbox, name] = this.key.split("\0");
    const states = this.#wanted();
    const why = WaitFailureCause[cause].toLowerCase().replaceAll("_", " ");
    const exitCode = this.store.sandboxOf(this.key)?.status?.exitCode;
    const value = create(WaitFailureSchema, {
      cause, states, workspace: workspace!, sandbox: sandbox!, name: name!, elapsed: duration(this.elapsed()), sandboxPhase: this.#phase,
      ...(this.#health && { lastHealth: this.#health }), ...(exitCode !== undefined && { exitCode }),
    });
    const last = ServiceHealthState[this.#health?.state ?? 0];
    const text = `service "${name}" of sandbox "${sandbox}" is not ${states.map((s) => ServiceHealthState[s]).join(" or ")}: ${why}; last seen ${last} (${this.#health?.reason ?? ""})`;
    return new ConnectError(text, code, undefined, [{ desc: WaitFailureSchema, value }]);
  }

  #wanted(): ServiceHealthState[] {
    return this.request.states.length === 0 ? [ServiceHealthState.HEALTHY] : this.request.states;
  }
}

const ends = new Map([
  [SandboxPhase.STOPPED, WaitFailureCause.SANDBOX_STOPPED],
  [SandboxPhase.STOPPING, WaitFailureCause.SANDBOX_STOPPED],
  [SandboxPhase.ERROR, WaitFailureCause.MAIN_PROCESS_EXITED],
  [SandboxPhase.DELETING, WaitFailureCause.SANDBOX_DELETED],
]);

function unchanged(a: Sent, b: Sent): boolean {
  const [x, y] = [a.service, b.service];
  return (
    a.phase === b.phase &&
    x.health?.state === y.health?.state &&
    x.health?.reason === y.health?.reason &&
    equals(ServiceEndpointSchema, x.endpoint!, y.endpoint!)
  );
}
