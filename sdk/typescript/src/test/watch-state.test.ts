// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import { test } from "node:test";

import { create, type MessageInitShape } from "@bufbuild/protobuf";

import { type WatchServicesResponse, WatchServicesResponseSchema } from "../messages.js";
import { difference, WatchState } from "../watch-state.js";

const message = (m: MessageInitShape<typeof WatchServicesResponseSchema>): WatchServicesResponse => create(WatchServicesResponseSchema, m);
const service = (number: number, name: string, state = 2, id = name): NonNullable<MessageInitShape<typeof WatchServicesResponseSchema>["services"]>[number] => ({
  number,
  service: { endpoint: { sandbox: "web", name, metadata: { id } }, health: { state } },
});
const names = (s: WatchState, now: number): string[] => s.at(now).map((w) => `${w.service.endpoint!.name}:${w.health.state}`);

test("nothing counts before a full state is complete", () => {
  const s = new WatchState();
  s.begin();
  assert.equal(s.take(message({ sequence: 1n, services: [service(1, "a")] }), 0), undefined);
  assert.deepEqual(names(s, 0), []);
  assert.equal(s.take(message({ sequence: 2n, complete: true, services: [service(2, "b")] }), 1), undefined);
  assert.deepEqual(names(s, 1), ["a:healthy", "b:healthy"]);
});

test("a new stream replaces the state once it is complete; until then the old one ages", () => {
  const s = new WatchState();
  s.begin();
  s.take(message({ sequence: 1n, complete: true, services: [service(1, "a"), service(2, "b")] }), 0);
  s.begin();
  s.take(message({ sequence: 1n, services: [service(1, "b", 3)] }), 14_000);
  assert.deepEqual(names(s, 14_000), ["a:healthy", "b:healthy"]);
  assert.deepEqual(names(s, 15_000), ["a:unknown", "b:unknown"], "an incomplete state is no word about the old one");
  s.take(message({ sequence: 2n, complete: true }), 16_000);
  assert.deepEqual(names(s, 16_000), ["b:unhealthy"]);
});

test("messages out of sequence are not trusted", () => {
  const s = new WatchState();
  s.begin();
  assert.match(s.take(message({ sequence: 2n, complete: true }), 0) ?? "", /2 came after 0/);
});

test("numbers are forgotten before services are learnt; nameless ones are passed over", () => {
  const s = new WatchState();
  s.begin();
  s.take(message({ sequence: 1n, complete: true, services: [service(1, "a")] }), 0);
  s.take(message({ sequence: 2n, complete: true, removed: [1, 77], services: [service(1, "b"), service(0, "c"), { number: 9 }] }), 0);
  s.take(message({ sequence: 3n, complete: true, ages: [{ number: 1, ageMs: 400 }, { number: 88, ageMs: 1 }] }), 100);
  assert.deepEqual(names(s, 100), ["b:healthy"]);
  assert.equal(s.at(200)[0]!.ageMs, 500);
});

test("the difference of two lists against a dumb model", () => {
  const random = generator(7);
  for (let round = 0; round < 500; round++) {
    const lists = [0, 1].map(() => {
      const s = new WatchState();
      s.begin();
      const picked = ["a", "b", "c", "d", "e"].filter(() => random() < 0.6);
      const services = picked.map((n, i) => service(i + 1, n, 1 + Math.floor(random() * 3), random() < 0.2 ? `${n}2` : n));
      s.take(message({ sequence: 1n, complete: true, services }), 0);
      return s.at(0);
    });
    const key = (w: (typeof lists)[0] extends (infer T)[] | undefined ? T : never): string => w.service.endpoint!.metadata!.id;
    const [before, after] = [lists[0]!, lists[1]!];
    const { changed, removed } = difference(before, after);
    const old = new Map(before.map((w) => [key(w), w]));
    const fresh = new Map(after.map((w) => [key(w), w]));
    assert.deepEqual(changed, after.filter((w) => old.get(key(w))?.health.state !== w.health.state));
    assert.deepEqual(removed.map(key).sort(), before.filter((w) => !fresh.has(key(w))).map(key).sort());
  }
});

/** A sequence of numbers in [0, 1) that is the same every time. */
function generator(seed: number): () => number {
  let x = seed;
  return () => (x = (x * 16_807) % 2_147_483_647) / 2_147_483_647;
}
