// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import { clone, create, equals } from "@bufbuild/protobuf";
import { type Timestamp, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";

import { type WorkspaceSelector } from "../gen/openshell/datamodel/v1/datamodel_pb.js";
import {
  type ExposeServiceRequest,
  HttpReadinessCheckSchema,
  type Sandbox,
  SandboxSchema,
  type ServiceEndpoint,
  type ServiceEndpointResponse,
  ServiceEndpointResponseSchema,
  ServiceEndpointSchema,
  type ServiceHealth,
  ServiceHealthSchema,
  ServiceHealthState,
} from "../gen/openshell/v1/openshell_pb.js";

/** A stored service and its health; undefined health: none is answered. */
export interface Stored {
  endpoint: ServiceEndpoint;
  health: ServiceHealth | undefined;
}

/** The objects of a fake gateway, by workspace, sandbox and service. */
export class Store {
  readonly sandboxes = new Map<string, Sandbox>();
  readonly services = new Map<string, Stored>();
  readonly #now: () => number;
  #version = 0n;

  constructor(now: () => number) {
    this.#now = now;
  }

  time(): Timestamp {
    return timestampFromMs(this.#now());
  }

  /** The metadata of a new object. */
  meta(workspace: string, name: string): { id: string; name: string; workspace: string; resourceVersion: bigint; createdTime: Timestamp } {
    this.#version++;
    return { id: `id-${this.#version}`, name, workspace, resourceVersion: this.#version, createdTime: this.time() };
  }

  /** A name for a sandbox that was created without one. */
  newName(): string {
    return `sandbox-${String(this.#version + 1n).padStart(8, "0")}`;
  }

  /** A sandbox, or NotFound. */
  sandbox(workspace: string, name: string): Sandbox {
    const s = this.sandboxes.get(key(workspace, name));
    if (!s) {
      throw new ConnectError(`there is no sandbox "${name}" in workspace "${workspace}"`, Code.NotFound);
    }
    return s;
  }

  /** Creates or updates a service: the health of a new or changed one is unknown. */
  expose(workspace: string, sandboxId: string, r: Pick<ExposeServiceRequest, "sandbox" | "name" | "targetPort" | "domain" | "readinessCheck">): ServiceEndpointResponse {
    const k = key(workspace, r.sandbox, r.name);
    const old = this.services.get(k);
    const endpoint = create(ServiceEndpointSchema, {
      metadata: this.meta(workspace, r.name), sandboxId, sandbox: r.sandbox, name: r.name, targetPort: r.targetPort, domain: r.domain,
    });
    if (old?.endpoint.metadata) {
      endpoint.metadata!.id = old.endpoint.metadata.id;
    }
    const check = r.readinessCheck ?? old?.endpoint.readinessCheck;
    if (check) {
      endpoint.readinessCheck = create(HttpReadinessCheckSchema, { path: check.path === "" ? "/" : check.path });
    }
    let health = old?.health;
    if (!old || old.endpoint.targetPort !== endpoint.targetPort || !sameCheck(old.endpoint, endpoint)) {
      health = create(ServiceHealthSchema, {
        state: ServiceHealthState.UNKNOWN,
        reason: old ? "ConfigurationChanged" : "NotObserved",
        message: "the agent has not checked this service yet",
      });
    }
    this.services.set(k, { endpoint, health });
    return this.answer(k);
  }

  /** What a get of a stored service returns. */
  answer(k: string): ServiceEndpointResponse {
    const { endpoint, health } = this.services.get(k)!;
    const [workspace, sandbox, service] = k.split("\0");
    const out = create(ServiceEndpointResponseSchema, {
      endpoint: clone(ServiceEndpointSchema, endpoint),
      url: `http://${[workspace, sandbox, service].filter((part) => part).join("--")}.sandbox.localhost:17680/`,
    });
    if (health) {
      out.health = clone(ServiceHealthSchema, health);
    }
    return out;
  }

  /** A copy of the sandbox of a service. */
  sandboxOf(k: string): Sandbox | undefined {
    const [workspace, sandbox] = k.split("\0");
    const s = this.sandboxes.get(key(workspace!, sandbox!));
    return s && clone(SandboxSchema, s);
  }
}

function sameCheck(a: ServiceEndpoint, b: ServiceEndpoint): boolean {
  const [x, y] = [a.readinessCheck, b.readinessCheck];
  return x === y || (!!x && !!y && equals(HttpReadinessCheckSchema, x, y));
}

/** Names a sandbox or, with a service, a service. */
export function key(workspace: string, sandbox: string, service = ""): string {
  return `${workspace}\0${sandbox}\0${service}`;
}

export function workspaceOr(name: string | undefined): string {
  return name || "default";
}

/** The workspace of a request about one object. */
export function oneWorkspace(scope: WorkspaceSelector | undefined): string {
  if (scope?.selection.case === "allWorkspaces") {
    throw new ConnectError("workspace_scope: all workspaces are for lists only", Code.InvalidArgument);
  }
  return workspaceOr(scope?.selection.value);
}

export function inScope(scope: WorkspaceSelector | undefined, k: string): boolean {
  return scope?.selection.case === "allWorkspaces" || k.startsWith(`${oneWorkspace(scope)}\0`);
}

/** Whether every "key=value" term of the selector holds. */
export function selected(selector: string, labels: Readonly<Record<string, string>> = {}): boolean {
  return selector === "" || selector.split(",").every((term) => {
    const [k, v] = term.split("=", 2);
    return labels[k!] === (v ?? "");
  });
}

export function checkPort(port: number): void {
  if (port < 1 || port > 65535) {
    throw new ConnectError(`target_port: ${port} is not within 1..65535`, Code.InvalidArgument);
  }
}

/** Cuts one page out of all keys; a token is the number of entries before the page. */
export function pageOf(keys: string[], most: number, size: number, token: string): { keys: string[]; next: string } {
  const begin = token === "" ? 0 : Number(token);
  if (!Number.isInteger(begin) || begin < 0 || begin > keys.length) {
    throw new ConnectError("page_token: is not one of this gateway's", Code.InvalidArgument);
  }
  const end = begin + (size <= 0 || size > most ? most : size);
  return { keys: keys.slice(begin, end), next: end < keys.length ? String(end) : "" };
}
