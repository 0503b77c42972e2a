// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// The driver of test/conformance for this SDK: a call as a line of JSON on
// standard input, its result as a line of JSON on standard output.
import { createInterface } from "node:readline";

import {
  type Client,
  connect,
  DeletionOutcome,
  elapsedMs,
  healthOf,
  type SandboxResponse,
  SandboxPhase,
  SandboxError,
  type ServiceEndpointResponse,
  ServiceHealthState,
  ServiceStatus,
  type ServiceUpdate,
  type ServiceWatch,
  WaitEndedError,
  WaitFailureCause,
  WaitTimeoutError,
  workspace,
} from "../index.js";

interface Call {
  op: string;
  sandbox?: string;
  service?: string;
  workspace?: string;
  port?: number;
  readiness_path?: string;
  request_id?: string;
  labels?: Record<string, string>;
  exposures?: { service: string; port: number; readiness_path?: string }[];
  selector?: string;
  page_size?: number;
  allow_missing?: boolean;
  states?: string[];
  timeout_ms?: number;
  state?: string;
  reason?: string;
  gone?: boolean;
  limit_ms?: number;
  ms?: number;
}

class LimitError extends Error {}

/** A watch under way, and the update that it was asked for. */
class Watching {
  #next: Promise<IteratorResult<ServiceUpdate, undefined>> | undefined;

  constructor(readonly watch: ServiceWatch) {}

  /** The next update, or undefined when the time is over. */
  async next(over: Promise<undefined>): Promise<ServiceUpdate | undefined> {
    this.#next ??= this.watch.next();
    const result = await Promise.race([this.#next, over]);
    if (result === undefined) {
      return undefined;
    }
    this.#next = undefined;
    if (result.done) {
      throw new Error("the watch has ended");
    }
    return result.value;
  }
}

/** Resolves after a time; does not keep a driver that has no more input. */
const after = (ms: number): Promise<undefined> => new Promise((resolve) => setTimeout(resolve, ms, undefined).unref());
let watching: Watching | undefined;

async function make(client: Client, call: Call): Promise<unknown> {
  const { sandbox = "", service: name = "", allow_missing: allowMissing = false } = call;
  const scope = call.workspace ? { workspaceScope: workspace(call.workspace) } : {};
  const check = (of: { readiness_path?: string }): { readinessCheck?: { path: string } } =>
    of.readiness_path === undefined ? {} : { readinessCheck: { path: of.readiness_path } };
  switch (call.op) {
    case "health":
      return { status: ServiceStatus[(await client.health()).status] };
    case "create_sandbox": {
      const serviceExposures = (call.exposures ?? []).map((e) => ({ service: e.service, targetPort: e.port, ...check(e) }));
      const request = { name: sandbox, labels: call.labels ?? {}, serviceExposures, requestId: call.request_id ?? "", ...scope };
      return sandboxView(await client.createSandbox(request));
    }
    case "get_sandbox":
      return sandboxView(await client.getSandbox({ name: sandbox, ...scope }));
    case "stop_sandbox":
      return sandboxView(await client.stopSandbox({ name: sandbox, ...scope }));
    case "start_sandbox":
      return sandboxView(await client.startSandbox({ name: sandbox, ...scope }));
    case "delete_sandbox":
      return { outcome: DeletionOutcome[(await client.deleteSandbox({ name: sandbox, allowMissing, ...scope })).outcome] };
    case "list_sandboxes": {
      const names: string[] = [];
      for await (const s of client.listSandboxes({ labelSelector: call.selector ?? "", ...scope })) {
        names.push(s.metadata?.name ?? "");
      }
      return { sandboxes: names.sort() };
    }
    case "expose": {
      const request = { sandbox, name, targetPort: call.port ?? 0, requestId: call.request_id ?? "", ...check(call), ...scope };
      return serviceView(await client.exposeService(request));
    }
    case "get":
      return serviceView(await client.getService({ sandbox, name, ...scope }));
    case "delete":
      return { outcome: DeletionOutcome[(await client.deleteService({ sandbox, name, allowMissing, ...scope })).outcome] };
    case "list": {
      const names: string[] = [];
      for await (const s of client.listServices({ sandbox, pageSize: call.page_size ?? 0, ...scope })) {
        names.push(s.endpoint?.name ?? "");
      }
      return { count: names.length, distinct: new Set(names).size };
    }
    case "wait": {
      const states = (call.states ?? []).map((s) => ServiceHealthState[s.toUpperCase() as keyof typeof ServiceHealthState]);
      const limits = call.timeout_ms === undefined ? {} : { timeoutMs: call.timeout_ms };
      const answer = await client.waitForService({ sandbox, name, states, ...scope }, limits);
      return { ...serviceView(answer.service), elapsed_ms: elapsedMs(answer) };
    }
    case "watch_open":
      return openWatch(client.watchServices({ sandbox, ...scope }));
    case "watch_until":
      return watchUntil(call);
    case "watch_idle": {
      const over = after(call.ms ?? 0);
      let updates = 0;
      while (await opened().next(over)) {
        updates++;
      }
      return { updates };
    }
    case "watch_close":
      await watching?.watch.close();
      watching = undefined;
      return {};
    default:
      throw new Error(`no op ${call.op}`);
  }
}

function opened(): Watching {
  if (!watching) {
    throw new Error("no watch is open");
  }
  return watching;
}

async function openWatch(watch: ServiceWatch): Promise<unknown> {
  watching = new Watching(watch);
  const over = after(20_000);
  for (;;) {
    const update = await watching.next(over);
    if (!update) {
      throw new LimitError("no full state in time");
    }
    if (update.connected) {
      return { services: watch.services().map((s) => serviceView(s.service)) };
    }
  }
}

async function watchUntil(call: Call): Promise<unknown> {
  const over = after(call.limit_ms ?? 0);
  for (;;) {
    const found = opened().watch.services().find((s) => s.service.endpoint?.name === (call.service ?? ""));
    if (!found && call.gone) {
      return { gone: true };
    }
    const wanted = found && !call.gone && found.health.state === call.state && (!call.reason || found.health.reason === call.reason);
    if (wanted) {
      return serviceView(found.service);
    }
    if (!(await opened().next(over))) {
      throw new LimitError("the watch has not told it in time");
    }
  }
}

function serviceView(r: ServiceEndpointResponse | undefined): object {
  const { state, ready, reason, httpStatus } = healthOf(r);
  const e = r?.endpoint;
  return {
    sandbox: e?.sandbox, service: e?.name, port: e?.targetPort, readiness_path: e?.readinessCheck?.path ?? null, url: r?.url,
    answered: r?.health !== undefined, state, ready, reason, http_status: httpStatus ?? 0,
  };
}

function sandboxView(r: SandboxResponse): object {
  return { sandbox: r.sandbox?.metadata?.name, phase: SandboxPhase[r.sandbox?.status?.phase ?? 0], urls: r.serviceUrls };
}

function errorView(e: unknown): object {
  const kind = e instanceof SandboxError ? e.code : e instanceof LimitError ? "Limit" : "Driver";
  const view = { kind, message: String(e instanceof Error ? e.message : e) };
  if (!(e instanceof WaitTimeoutError || e instanceof WaitEndedError)) {
    return view;
  }
  const { cause, sandbox, name, lastHealth } = e.failure;
  const last = healthOf({ $typeName: "openshell.v1.ServiceEndpointResponse", url: "", ...(lastHealth && { health: lastHealth }) });
  const wait = { cause: WaitFailureCause[cause], sandbox, service: name, elapsed_ms: elapsedMs(e.failure), last_state: last.state, last_reason: last.reason };
  return { ...view, wait };
}

const stateDir = process.env["SANDBOX_GATEWAY_STATE_DIR"];
const client = await connect(stateDir ? { stateDir } : {});
for await (const line of createInterface({ input: process.stdin })) {
  const result = await make(client, JSON.parse(line) as Call).then(
    (ok) => ({ ok }),
    (e: unknown) => ({ error: errorView(e) }),
  );
  process.stdout.write(`${JSON.stringify(result)}\n`);
}
await watching?.watch.close();
client.close();
process.exitCode = 0;
