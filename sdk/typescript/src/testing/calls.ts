// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import { clone, create } from "@bufbuild/protobuf";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";

import type { WorkspaceSelector } from "../gen/openshell/datamodel/v1/datamodel_pb.js";
import {
  DeletionOutcome,
  type HealthResponse,
  type OpenShell,
  SandboxPhase,
  type SandboxResponse,
  SandboxResponseSchema,
  SandboxSchema,
  SandboxStatusSchema,
} from "../gen/openshell/v1/openshell_pb.js";
import { checkPort, inScope, key, oneWorkspace, pageOf, selected, type Store } from "./store.js";

/** The calls of openshell.v1 over a store; changed is told after each change. What is not here is answered Unimplemented. */
export function callsOf(store: Store, pageSize: number, changed: () => void, own: () => HealthResponse): Partial<ServiceImpl<typeof OpenShell>> {
  return { health: own, ...sandboxCalls(store, pageSize, changed), ...serviceCalls(store, pageSize, changed) };
}

type SandboxCalls = Pick<
  ServiceImpl<typeof OpenShell>,
  "createSandbox" | "getSandbox" | "listSandboxes" | "stopSandbox" | "startSandbox" | "deleteSandbox"
>;

function sandboxCalls(store: Store, pageSize: number, changed: () => void): SandboxCalls {
  const respond = (name: string, scope: WorkspaceSelector | undefined): SandboxResponse =>
    create(SandboxResponseSchema, { sandbox: clone(SandboxSchema, store.sandbox(oneWorkspace(scope), name)) });
  const phase = (name: string, scope: WorkspaceSelector | undefined, to: SandboxPhase): SandboxResponse => {
    const s = store.sandbox(oneWorkspace(scope), name);
    s.status ??= create(SandboxStatusSchema);
    s.status.phase = to;
    changed();
    return respond(name, scope);
  };
  return {
    createSandbox(r) {
      const workspace = oneWorkspace(r.workspaceScope);
      const name = r.name || store.newName();
      if (store.sandboxes.has(key(workspace, name))) {
        throw new ConnectError(`sandbox "${name}" exists already`, Code.AlreadyExists);
      }
      r.serviceExposures.forEach((e) => checkPort(e.targetPort));
      const sandbox = create(SandboxSchema, {
        metadata: { ...store.meta(workspace, name), labels: r.labels, annotations: r.annotations },
        ...(r.spec && { spec: r.spec }),
        status: { phase: SandboxPhase.PROVISIONING },
      });
      store.sandboxes.set(key(workspace, name), sandbox);
      const serviceUrls: Record<string, string> = {};
      for (const e of r.serviceExposures) {
        const exposure = { sandbox: name, name: e.service, targetPort: e.targetPort, domain: false, ...(e.readinessCheck && { readinessCheck: e.readinessCheck }) };
        serviceUrls[e.service] = store.expose(workspace, sandbox.metadata!.id, exposure).url;
      }
      changed();
      return { sandbox: clone(SandboxSchema, sandbox), serviceUrls };
    },
    getSandbox: (r) => respond(r.name, r.workspaceScope),
    listSandboxes(r) {
      const all = [...store.sandboxes.keys()].sort();
      const wanted = all.filter((k) => inScope(r.workspaceScope, k) && selected(r.labelSelector, store.sandboxes.get(k)!.metadata?.labels));
      const { keys, next } = pageOf(wanted, pageSize, r.pageSize, r.pageToken);
      return { sandboxes: keys.map((k) => clone(SandboxSchema, store.sandboxes.get(k)!)), nextPageToken: next };
    },
    stopSandbox: (r) => phase(r.name, r.workspaceScope, SandboxPhase.STOPPED),
    startSandbox: (r) => phase(r.name, r.workspaceScope, SandboxPhase.STARTING),
    deleteSandbox(r) {
      const workspace = oneWorkspace(r.workspaceScope);
      if (r.allowMissing && !store.sandboxes.has(key(workspace, r.name))) {
        return { outcome: DeletionOutcome.ALREADY_ABSENT };
      }
      const { metadata } = store.sandbox(workspace, r.name);
      store.sandboxes.delete(key(workspace, r.name));
      for (const k of store.services.keys()) {
        if (k.startsWith(`${workspace}\0${r.name}\0`)) {
          store.services.delete(k);
        }
      }
      changed();
      return { outcome: DeletionOutcome.COMPLETED, sandboxId: metadata?.id ?? "" };
    },
  };
}

type ServiceCalls = Pick<ServiceImpl<typeof OpenShell>, "exposeService" | "getService" | "listServices" | "deleteService">;

function serviceCalls(store: Store, pageSize: number, changed: () => void): ServiceCalls {
  return {
    exposeService(r) {
      const workspace = oneWorkspace(r.workspaceScope);
      const sandbox = store.sandbox(workspace, r.sandbox);
      checkPort(r.targetPort);
      const out = store.expose(workspace, sandbox.metadata?.id ?? "", r);
      changed();
      return out;
    },
    getService(r) {
      const k = key(oneWorkspace(r.workspaceScope), r.sandbox, r.name);
      if (!store.services.has(k)) {
        throw noService(k);
      }
      return store.answer(k);
    },
    listServices(r) {
      if (r.sandbox !== "" && r.workspaceScope?.selection.case !== "allWorkspaces") {
        store.sandbox(oneWorkspace(r.workspaceScope), r.sandbox);
      }
      const all = [...store.services.keys()].sort();
      const wanted = all.filter((k) => inScope(r.workspaceScope, k) && (r.sandbox === "" || k.split("\0")[1] === r.sandbox));
      const { keys, next } = pageOf(wanted, pageSize, r.pageSize, r.pageToken);
      return { services: keys.map((k) => store.answer(k)), nextPageToken: next };
    },
    deleteService(r) {
      const k = key(oneWorkspace(r.workspaceScope), r.sandbox, r.name);
      if (!store.services.delete(k)) {
        if (r.allowMissing) {
          return { outcome: DeletionOutcome.ALREADY_ABSENT };
        }
        throw noService(k);
      }
      changed();
      return { outcome: DeletionOutcome.COMPLETED };
    },
  };
}

export function noService(k: string): ConnectError {
  const [workspace, sandbox, service] = k.split("\0");
  return new ConnectError(`sandbox "${sandbox}" has no service "${service}" in workspace "${workspace}"`, Code.NotFound);
}
