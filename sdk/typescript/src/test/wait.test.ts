// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import { test } from "node:test";

import { getEventListeners, setMaxListeners } from "node:events";

import {
  CanceledError,
  type Client,
  elapsedMs,
  FailedPreconditionError,
  NotFoundError,
  SandboxPhase,
  ServiceHealthState,
  TimeoutError,
  UnavailableError,
  WaitEndedError,
  WaitFailureCause,
  WaitTimeoutError,
} from "../index.js";
import { FakeClock, FakeGateway } from "../testing/index.js";

const target = { sandbox: "web", name: "docs" };

function stage(): { clock: FakeClock; gateway: FakeGateway; client: Client } {
  const clock = new FakeClock();
  const gateway = new FakeGateway({ clock, now: () => clock.now() });
  gateway.putSandbox({ metadata: { name: "web" }, status: { phase: SandboxPhase.READY } });
  gateway.putService({ sandbox: "web", name: "docs", targetPort: 8080 }, { state: ServiceHealthState.UNKNOWN, reason: "NotObserved" });
  return { clock, gateway, client: gateway.client() };
}

const become = (gateway: FakeGateway, state: ServiceHealthState): void =>
  gateway.setHealth({ sandbox: "web", service: "docs" }, { state, reason: "Refused" });

test("waits until the service is healthy, and says how long", async () => {
  const { clock, gateway, client } = stage();
  const waiting = client.waitForService(target, { timeoutMs: 60_000 });
  await clock.advance(1500);
  become(gateway, ServiceHealthState.HEALTHY);
  const answer = await waiting;
  assert.equal(answer.service?.health?.state, ServiceHealthState.HEALTHY);
  assert.equal(elapsedMs(answer), 1500);
  assert.equal(gateway.watches, 0);
});

test("answers at once, for any of the states", async () => {
  const { client } = stage();
  const states = [ServiceHealthState.UNKNOWN, ServiceHealthState.UNHEALTHY];
  assert.equal((await client.waitForService({ ...target, states })).service?.health?.reason, "NotObserved");
});

test("a time limit that is over says what was waited for, how long and what was last", async () => {
  const { clock, gateway, client } = stage();
  const waiting = client.waitForService(target, { timeoutMs: 2500 });
  const failed = assert.rejects(waiting, (e: unknown) => {
    assert.ok(e instanceof WaitTimeoutError && e instanceof TimeoutError);
    assert.equal(e.failure.cause, WaitFailureCause.TIMEOUT);
    assert.equal(elapsedMs(e.failure), 2500);
    assert.equal(e.failure.lastHealth?.reason, "Refused");
    assert.match(e.message, /"docs".*"web".*HEALTHY.*UNHEALTHY \(Refused\)/);
    return true;
  });
  become(gateway, ServiceHealthState.UNHEALTHY);
  await clock.advance(2500);
  await failed;
});

const endings: [string, (gateway: FakeGateway, client: Client) => unknown, WaitFailureCause][] = [
  ["stopped", (_, c) => c.stopSandbox({ name: "web" }), WaitFailureCause.SANDBOX_STOPPED],
  ["deleted", (_, c) => c.deleteSandbox({ name: "web" }), WaitFailureCause.SANDBOX_DELETED],
  ["service deleted", (_, c) => c.deleteService(target), WaitFailureCause.SERVICE_DELETED],
  [
    "exited",
    (g) => g.putSandbox({ metadata: { name: "web" }, status: { phase: SandboxPhase.ERROR, exitCode: 3 } }),
    WaitFailureCause.MAIN_PROCESS_EXITED,
  ],
];

for (const [name, end, cause] of endings) {
  test(`ends early: ${name}`, async () => {
    const { clock, gateway, client } = stage();
    const failed = assert.rejects(client.waitForService(target), (e: unknown) => {
      assert.ok(e instanceof WaitEndedError && e instanceof FailedPreconditionError);
      assert.equal(e.failure.cause, cause);
      assert.equal(e.failure.exitCode, name === "exited" ? 3 : undefined);
      return true;
    });
    await clock.advance(100);
    await end(gateway, client);
    await clock.advance(100);
    await failed;
  });
}

test("goes on waiting over a gateway that was lost", async () => {
  const { clock, gateway, client } = stage();
  const waiting = client.waitForService(target, { timeoutMs: 60_000 });
  await clock.advance(5000);
  const comeUp = gateway.goDown();
  gateway.breakWatches();
  await clock.advance(20_000);
  become(gateway, ServiceHealthState.HEALTHY);
  comeUp();
  await clock.advance(20_000);
  const answer = await waiting;
  assert.ok(elapsedMs(answer) >= 25_000 && elapsedMs(answer) <= 45_000, `${elapsedMs(answer)}`);
});

test("the time limit holds while the gateway is away", async () => {
  const { clock, gateway, client } = stage();
  const failed = assert.rejects(client.waitForService(target, { timeoutMs: 10_000 }), (e: unknown) => {
    assert.ok(e instanceof WaitTimeoutError);
    assert.equal(e.failure.lastHealth, undefined);
    assert.match(e.message, /has not said within 10\.00s how service "docs" of sandbox "web" is/);
    return true;
  });
  await clock.advance(1000);
  gateway.goDown();
  gateway.breakWatches();
  await clock.advance(9000);
  await failed;
});

test("a gateway that is not reached at first, a service that is not there, a signal", async () => {
  const { clock, gateway, client } = stage();
  await assert.rejects(client.waitForService({ sandbox: "web", name: "none" }), NotFoundError);
  const comeUp = gateway.goDown();
  await assert.rejects(client.waitForService(target), UnavailableError);
  comeUp();
  const ends = new AbortController();
  const failed = assert.rejects(client.waitForService(target, { signal: ends.signal }), CanceledError);
  await clock.advance(1000);
  ends.abort();
  await failed;
});

test("a thousand cancelled waits leave nothing", async () => {
  const { clock, gateway, client } = stage();
  const long = new AbortController();
  for (let i = 0; i < 1000; i += 50) {
    const ends = new AbortController();
    setMaxListeners(0, ends.signal);
    const waits = Array.from({ length: 50 }, () => client.waitForService(target, { signal: ends.signal, timeoutMs: 60_000 }));
    const over = Promise.all(waits.map((w) => assert.rejects(w, CanceledError)));
    await clock.advance(10);
    ends.abort();
    await over;
    await client.getService(target, { signal: long.signal });
  }
  await clock.advance(0);
  assert.equal(gateway.watches, 0);
  assert.equal(clock.pending, 0);
  assert.equal(getEventListeners(long.signal, "abort").length, 0);
});
