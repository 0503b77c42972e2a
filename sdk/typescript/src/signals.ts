// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

/** A signal that follows others until it is released. */
export interface Linked {
  readonly signal: AbortSignal;
  /** Leaves the others. A signal that lives long must not collect listeners. */
  readonly release: () => void;
}

/** Follows whichever of the signals is aborted first. */
export function link(...signals: (AbortSignal | undefined)[]): Linked {
  const own = new AbortController();
  const stops: (() => void)[] = [];
  for (const s of signals) {
    if (s?.aborted) {
      own.abort(s.reason);
    } else if (s) {
      const aborted = (): void => own.abort(s.reason);
      s.addEventListener("abort", aborted, { once: true });
      stops.push(() => s.removeEventListener("abort", aborted));
    }
  }
  return { signal: own.signal, release: () => stops.forEach((stop) => stop()) };
}
