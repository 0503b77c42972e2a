// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

/**
 * Time, as far as this package needs it. Tests replace it: see FakeClock in
 * "@sandbox-agent/sdk/testing".
 */
export interface Clock {
  /** Milliseconds since some instant; never goes back. */
  now(): number;
  /** Calls f once, after ms milliseconds, unless the returned function was called before. */
  after(ms: number, f: () => void): () => void;
}

/** The machine's clock. */
export const systemClock: Clock = {
  now: () => performance.now(),
  after(ms, f) {
    const timer = setTimeout(f, ms);
    return () => clearTimeout(timer);
  },
};

/** Waits, or throws the signal's reason. */
export function pause(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const stop = clock.after(ms, () => {
      signal?.removeEventListener("abort", aborted);
      resolve();
    });
    const aborted = (): void => {
      stop();
      reject(signal?.reason);
    };
    signal?.addEventListener("abort", aborted, { once: true });
  });
}

const firstRedialMs = 250;
const lastRedialMs = 15_000;

/** The pause before repetition n: growing to 15 s, of which the upper half is chance. */
export function redialAfter(n: number): number {
  const most = Math.min(firstRedialMs * 2 ** Math.min(n, 10), lastRedialMs);
  return most / 2 + Math.random() * (most / 2);
}
