// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { test } from "node:test";
import { inspect } from "node:util";

import {
  AlreadyExistsError,
  allWorkspaces,
  CanceledError,
  connect,
  DeletionOutcome,
  type ErrorCode,
  healthOf,
  InvalidArgumentError,
  newRequestId,
  NotFoundError,
  OptionError,
  RepeatedPageError,
  SandboxError,
  SandboxPhase,
  ServiceHealthState,
  TimeoutError,
  UnavailableError,
  workspace,
} from "../index.js";
import { FakeGateway } from "../testing/index.js";

const collect = async <T>(list: AsyncIterable<T>): Promise<T[]> => {
  const all: T[] = [];
  for await (const item of list) {
    all.push(item);
  }
  return all;
};

test("a sandbox with services, from create to delete", async () => {
  const gateway = new FakeGateway();
  const client = gateway.client();
  const created = await client.createSandbox({
    name: "web",
    labels: { team: "a" },
    serviceExposures: [{ targetPort: 8080, readinessCheck: { path: "" } }, { service: "docs", targetPort: 8081 }],
  });
  assert.deepEqual(Object.keys(created.serviceUrls).sort(), ["", "docs"]);
  const unnamed = await client.getService({ sandbox: "web" });
  assert.equal(unnamed.endpoint?.readinessCheck?.path, "/", "an empty path is stored as /");
  const { state, reason, ready } = healthOf(unnamed);
  assert.deepEqual({ state, reason, ready }, { state: "unknown", reason: "NotObserved", ready: true });

  gateway.setHealth({ sandbox: "web" }, { state: ServiceHealthState.HEALTHY });
  const updated = await client.exposeService({ sandbox: "web", targetPort: 9090 });
  assert.equal(updated.endpoint?.readinessCheck?.path, "/", "an omitted check keeps the stored one");
  assert.equal(healthOf(updated).reason, "ConfigurationChanged");

  await assert.rejects(client.createSandbox({ name: "web" }), AlreadyExistsError);
  await assert.rejects(client.exposeService({ sandbox: "web", targetPort: 0 }), InvalidArgumentError);
  await assert.rejects(client.getService({ sandbox: "web", name: "none" }), NotFoundError);
  assert.equal((await client.deleteService({ sandbox: "web", name: "none", allowMissing: true })).outcome, DeletionOutcome.ALREADY_ABSENT);
  assert.equal((await client.deleteService({ sandbox: "web", name: "docs" })).outcome, DeletionOutcome.COMPLETED);
  assert.equal((await client.stopSandbox({ name: "web" })).sandbox?.status?.phase, SandboxPhase.STOPPED);
  assert.equal((await client.startSandbox({ name: "web" })).sandbox?.status?.phase, SandboxPhase.STARTING);
  assert.equal((await collect(client.listSandboxes({ labelSelector: "team=a" }))).length, 1);
  assert.equal((await collect(client.listSandboxes({ labelSelector: "team=b" }))).length, 0);
  assert.equal((await client.deleteSandbox({ name: "web" })).outcome, DeletionOutcome.COMPLETED);
  await assert.rejects(client.getSandbox({ name: "web" }), NotFoundError);
});

test("a sandbox without a name gets one, and another one the next time", async () => {
  const client = new FakeGateway().client();
  const names = new Set<string>();
  for (let i = 0; i < 2; i++) {
    const { sandbox, serviceUrls } = await client.createSandbox({ serviceExposures: [{ targetPort: 8080 }] });
    const name = sandbox?.metadata?.name ?? "";
    assert.match(name, /^sandbox-\w{8}$/);
    assert.ok(serviceUrls[""]?.includes(`//default--${name}.`), serviceUrls[""]);
    await client.getService({ sandbox: name });
    names.add(name);
  }
  assert.equal(names.size, 2);
});

test("lists go over every page, and fetch one when it is needed", async () => {
  const gateway = new FakeGateway({ pageSize: 100 });
  const client = gateway.client();
  gateway.putSandbox({ metadata: { name: "web" } });
  gateway.putSandbox({ metadata: { name: "far", workspace: "other" } });
  gateway.putService({ sandbox: "far", targetPort: 1, metadata: { workspace: "other" } });
  for (let i = 0; i < 250; i++) {
    gateway.putService({ sandbox: "web", name: `s${i}`, targetPort: 1000 + i });
  }
  assert.equal(new Set((await collect(client.listServices({ sandbox: "web" }))).map((s) => s.endpoint?.name)).size, 250);
  const count = (): number => gateway.requests.filter((r) => r.method === "listServices").length;
  assert.equal(count(), 3);
  for await (const _ of client.listServices({ sandbox: "web" })) {
    break;
  }
  assert.equal(count(), 4, "one page for one service");
  assert.equal((await collect(client.listServices({ workspaceScope: allWorkspaces() }))).length, 251);
  assert.equal((await collect(client.listServices({ workspaceScope: workspace("other") }))).length, 1);
  await assert.rejects(collect(client.listServices({ pageToken: "bad" })), InvalidArgumentError);
});

test("a page that names itself as the next ends the list", async () => {
  const { pages } = await import("../pages.js");
  await assert.rejects(collect(pages("", async () => ({ items: [1], next: "x" }))), RepeatedPageError);
});

test("every code has its class, its name, and a message without control characters", async () => {
  const gateway = new FakeGateway();
  const client = gateway.client();
  const all: ErrorCode[] = [
    "NotFound", "AlreadyExists", "InvalidArgument", "FailedPrecondition", "Aborted", "Unauthenticated", "PermissionDenied",
    "Unavailable", "DeadlineExceeded", "Canceled", "ResourceExhausted", "Unimplemented", "Internal", "DataLoss",
  ];
  for (const code of all) {
    gateway.fail("getService", { code, message: "bad \u001b[31mred\u202e" });
    const e = await client.getService({}).then(() => assert.fail(), (e: unknown) => e);
    assert.ok(e instanceof SandboxError);
    assert.equal(e.code, code);
    const own = ["Internal", "DataLoss"].includes(code) ? "SandboxError" : code === "DeadlineExceeded" ? "TimeoutError" : `${code}Error`;
    assert.equal(e.name, own);
    assert.equal(e.constructor.name, own);
    assert.match(e.message, /^sandbox: get service: [a-z ]+: ".*\\u\{1b\}.*\\u\{202e\}"$/);
  }
});

test("signals, time limits, a closed client", async () => {
  const gateway = new FakeGateway();
  const client = gateway.client();
  const arrived = gateway.hang("getService");
  const ends = new AbortController();
  const call = assert.rejects(client.getService({}, { signal: ends.signal }), CanceledError);
  await arrived;
  ends.abort();
  await call;
  await assert.rejects(client.getService({}, { signal: AbortSignal.timeout(1) }), TimeoutError);
  await assert.rejects(client.getService({}, { timeoutMs: 1 }), TimeoutError);
  await assert.rejects(client.getService({}, { timeoutMs: -1 }), InvalidArgumentError);
  const hanging = assert.rejects(client.getService({}), CanceledError);
  client.close();
  await hanging;
  await assert.rejects(client.health(), CanceledError);
});

test("nobody listens: unavailable, and the token shows nowhere", async () => {
  const token = "not-to-be-seen";
  using client = await connect({ address: "http://127.0.0.1:9", token });
  const e = await client.health().then(() => assert.fail(), (e: unknown) => e);
  assert.ok(e instanceof UnavailableError, String(e));
  for (const text of [inspect(client, { depth: 9, showHidden: true }), JSON.stringify(client), inspect(e, { depth: 9, showHidden: true })]) {
    assert.ok(!text.includes(token));
  }
});

test("a server that speaks something else, one that hangs up: unavailable", async () => {
  for (const greet of [(s: Socket) => s.end("SSH-2.0-x\r\n"), (s: Socket) => s.destroy(), (s: Socket) => s.resetAndDestroy()]) {
    const server = createServer(greet).listen(0, "127.0.0.1");
    await once(server, "listening");
    using client = await connect({ address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, token: "t" });
    const e = await client.health().then(() => assert.fail(), (e: unknown) => e);
    assert.ok(e instanceof UnavailableError, inspect(e));
    server.close();
  }
});

test("options that cannot be used", async () => {
  const refused: [Parameters<typeof connect>[0], RegExp][] = [
    [{ address: "127.0.0.1:80" }, /address: must be/],
    [{ address: "https://user@host:1" }, /address: must end after the port/],
    [{ address: "https://host:1/path" }, /address: must end after the port/],
    [{ address: "https://host:0" }, /port must be a number/],
    [{ address: "http://example.test:1" }, /plain text/],
    [{ address: "https://host:1", token: "a b" }, /token: holds a character/],
    [{ address: "https://host:1", ca: "none" }, /ca: holds no PEM/],
    [{ address: "https://host:1", ca: "a", caFile: "b" }, /together with caFile/],
    [{ address: "https://host:1", caFile: "/nonexistent" }, /caFile: cannot read/],
  ];
  for (const [options, fault] of refused) {
    await assert.rejects(connect(options), (e: unknown) => e instanceof OptionError && fault.test(e.message), `${JSON.stringify(options)}`);
  }
  (await connect({ address: "http://example.test:1", insecure: true })).close();
  (await connect({ address: "http://[::1]" })).close();
});

test("request ids are random UUIDs", () => {
  assert.match(newRequestId(), /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.notEqual(newRequestId(), newRequestId());
});
