// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import type { Clock } from "../clock.js";

interface Timer {
  at: number;
  f: () => void;
}

/** A clock that moves when it is told to. Instants are milliseconds. */
export class FakeClock implements Clock {
  #now: number;
  readonly #timers = new Set<Timer>();

  constructor(now = 1_000_000) {
    this.#now = now;
  }

  now(): number {
    return this.#now;
  }

  after(ms: number, f: () => void): () => void {
    const timer = { at: this.#now + Math.max(ms, 0), f };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** How many timers wait. */
  get pending(): number {
    return this.#timers.size;
  }

  /**
   * Moves the clock, timer by timer. What a timer sets off is done before the
   * next one is due, as far as it needs nothing from outside of the process.
   */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms;
    await settle();
    for (;;) {
      const next = [...this.#timers].sort((a, b) => a.at - b.at)[0];
      if (!next || next.at > end) {
        break;
      }
      this.#timers.delete(next);
      this.#now = Math.max(next.at, this.#now);
      next.f();
      await settle();
    }
    this.#now = end;
    await settle();
  }
}

/** Lets what is ready to run do so; a call in memory takes some turns of the loop. */
async function settle(): Promise<void> {
  for (let i = 0; i < 10; i++) {
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
}
