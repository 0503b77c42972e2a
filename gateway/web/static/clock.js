// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// A clock for ages: it never goes back, and it does not stand still while the
// computer sleeps, as a browser's steady clock does. A step of the wall clock
// forward makes things look older until the next message, never younger.
export function newClock() {
  let steady = performance.now();
  let wall = Date.now();
  let total = 0;
  return () => {
    const s = performance.now();
    const w = Date.now();
    total += Math.max(s - steady, w - wall, 0);
    steady = s;
    wall = w;
    return total;
  };
}
