// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import { test } from "node:test";

import { CanceledError, InvalidArgumentError, reasonWatchStale, ServiceHealthState, type ServiceUpdate, type ServiceWatch } from "../index.js";
import { FakeClock, FakeGateway } from "../testing/index.js";

const healthy = { state: ServiceHealthState.HEALTHY, reason: "OK" };
const unhealthy = { state: ServiceHealthState.UNHEALTHY, reason: "Refused" };

function stage(): { clock: FakeClock; gateway: FakeGateway } {
  const clock = new FakeClock();
  const gateway = new FakeGateway({ clock, now: () => clock.now() });
  gateway.putSandbox({ metadata: { name: "web", labels: { team: "a" } } });
  gateway.putService({ sandbox: "web", name: "docs", targetPort: 8080 }, healthy);
  gateway.putService({ sandbox: "web", name: "api", targetPort: 8081 }, unhealthy);
  return { clock, gateway };
}

const shown = (u: ServiceUpdate): string =>
  `${u.connected ? "+" : "-"} ${[
    ...u.changed.map((s) => `${s.service.endpoint?.name}=${s.health.state}/${s.health.reason}`),
    ...u.removed.map((s) => `${s.service.endpoint?.name} gone`),
  ].join(" ")}`.trim();

/** What the watch tells next while the clock moves on. */
async function next(watch: ServiceWatch, clock: FakeClock, limitMs = 60_000): Promise<string> {
  let told: string | undefined;
  const done = watch.next().then((r) => (told = r.done ? "done" : shown(r.value)));
  await clock.advance(0);
  for (let moved = 0; told === undefined && moved < limitMs; moved += 250) {
    await clock.advance(250);
  }
  assert.notEqual(told, undefined, "the watch told nothing");
  await done;
  return told!;
}

test("full state first, then changes, and what is gone", async () => {
  const { clock, gateway } = stage();
  const watch = gateway.client().watchServices({ sandbox: "web" });
  assert.deepEqual(watch.services(), []);
  assert.equal(await next(watch, clock), "+ api=unhealthy/Refused docs=healthy/OK");
  gateway.setHealth({ sandbox: "web", service: "docs" }, unhealthy);
  assert.equal(await next(watch, clock), "+ docs=unhealthy/Refused");
  gateway.putService({ sandbox: "web", name: "new", targetPort: 1 });
  assert.equal(await next(watch, clock), "+ new=unknown/");
  const client = gateway.client();
  await client.deleteService({ sandbox: "web", name: "api" });
  assert.equal(await next(watch, clock), "+ api gone");
  assert.equal(watch.services().length, 2);
  await watch.close();
  assert.equal(await next(watch, clock), "done");
  assert.equal(gateway.watches, 0);
});

test("heartbeats are no news: ten idle minutes are silent", async () => {
  const { clock, gateway } = stage();
  const watch = gateway.client().watchServices();
  await next(watch, clock);
  let told = 0;
  const waiting = watch.next().then((r) => (told += r.done ? 0 : 1));
  await clock.advance(600_000);
  assert.equal(told, 0);
  assert.equal(watch.services()[1]!.health.state, "healthy");
  assert.equal(gateway.requests.filter((r) => r.method === "watchServices").length, 1, "it has not connected again");
  await watch.close();
  await waiting;
});

test("T24: a gateway that is silent for 15 s makes every service unknown, and only then", async () => {
  const { clock, gateway } = stage();
  const watch = gateway.client().watchServices({ services: ["docs"] });
  assert.equal(await next(watch, clock), "+ docs=healthy/OK");
  const began = clock.now();
  const unmute = gateway.muteWatches();
  await clock.advance(14_999);
  assert.equal(watch.services()[0]!.health.state, "healthy");
  await clock.advance(1);
  const [stale] = watch.services();
  assert.equal(stale!.health.state, "unknown");
  assert.equal(stale!.health.reason, reasonWatchStale);
  const told = [await next(watch, clock)];
  assert.equal(clock.now() - began, 15_000, "told at once");
  if (!told[0]!.includes("docs")) {
    told.push(await next(watch, clock));
  }
  assert.match(told.join(), /docs=unknown\/WatchStale/);
  assert.match(told.join(), /-/, "and that the gateway is not heard");
  unmute();
  assert.equal(await next(watch, clock), "+ docs=healthy/OK", "full state after a reconnect");
  await watch.close();
});

test("a gateway that restarts within 15 s is no change of a service", async () => {
  const { clock, gateway } = stage();
  const watch = gateway.client().watchServices();
  await next(watch, clock);
  const comeUp = gateway.goDown();
  gateway.breakWatches();
  assert.equal(await next(watch, clock), "-");
  gateway.setHealth({ sandbox: "web", service: "api" }, healthy);
  comeUp();
  assert.equal(await next(watch, clock), "+ api=healthy/OK", "the difference to what was told before");
  await watch.close();
});

test("a gateway that stays away: unknown after 15 s, tried for ever", async () => {
  const { clock, gateway } = stage();
  const watch = gateway.client().watchServices({ services: ["docs"] });
  await next(watch, clock);
  const comeUp = gateway.goDown();
  gateway.breakWatches();
  assert.equal(await next(watch, clock), "-");
  assert.equal(await next(watch, clock), "- docs=unknown/WatchStale");
  await clock.advance(600_000);
  comeUp();
  assert.equal(await next(watch, clock), "+ docs=healthy/OK");
  await watch.close();
});

test("a gateway that is not there at first is an update, not an error", async () => {
  const { clock, gateway } = stage();
  const comeUp = gateway.goDown();
  const watch = gateway.client().watchServices({ services: ["docs"] });
  const first = await watch.next();
  assert.equal(first.value?.connected, false);
  assert.match(String(first.value?.error), /unavailable/);
  comeUp();
  assert.equal(await next(watch, clock), "+ docs=healthy/OK");
  await watch.close();
});

test("what repeating does not heal ends the watch", async () => {
  const { gateway } = stage();
  gateway.fail("watchServices", { code: "InvalidArgument", message: "label_selector: is wrong" });
  const watch = gateway.client().watchServices();
  await assert.rejects(watch.next(), InvalidArgumentError);
});

test("a loop that is left closes the watch; a signal and a closed client end it with an error", async () => {
  const { gateway } = stage();
  const client = gateway.client();
  for await (const update of client.watchServices()) {
    assert.equal(update.changed.length, 2);
    break;
  }
  assert.equal(gateway.watches, 0);

  const ends = new AbortController();
  const watch = client.watchServices({}, { signal: ends.signal });
  await watch.next();
  ends.abort();
  await assert.rejects(watch.next(), CanceledError);

  const another = client.watchServices();
  await another.next();
  client.close();
  await assert.rejects(another.next(), CanceledError);
});

test("ages grow between heartbeats", async () => {
  const { clock, gateway } = stage();
  const checked = BigInt(Math.floor(clock.now() / 1000));
  gateway.setHealth({ sandbox: "web", service: "docs" }, { ...healthy, lastCheckedTime: { seconds: checked, nanos: 0 } });
  const watch = gateway.client().watchServices({ services: ["docs"] });
  await next(watch, clock);
  assert.equal(watch.services()[0]!.ageMs, 0);
  await clock.advance(3000);
  assert.equal(watch.services()[0]!.ageMs, 3000);
  await clock.advance(3000);
  assert.equal(watch.services()[0]!.ageMs, 6000);
  await watch.close();
});

test("a slow reader gets the newest state alone", async () => {
  const { clock, gateway } = stage();
  const watch = gateway.client().watchServices({ services: ["docs"] });
  await next(watch, clock);
  for (const state of [unhealthy, healthy, unhealthy, healthy]) {
    gateway.setHealth({ sandbox: "web", service: "docs" }, state);
    await clock.advance(100);
  }
  gateway.setHealth({ sandbox: "web", service: "docs" }, unhealthy);
  await clock.advance(100);
  assert.equal(await next(watch, clock), "+ docs=unhealthy/Refused");
  await watch.close();
});
