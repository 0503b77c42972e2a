// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import { create } from "@bufbuild/protobuf";
import { randomUUID } from "node:crypto";

import { type WorkspaceSelector, WorkspaceSelectorSchema } from "./gen/openshell/datamodel/v1/datamodel_pb.js";

/**
 * A random UUID for the requestId of a mutation: the gateway carries out one id
 * and payload once within 24 hours, however often it is sent.
 */
export function newRequestId(): string {
  return randomUUID();
}

/** Selects one workspace; the empty name is the gateway's default. */
export function workspace(name: string): WorkspaceSelector {
  return create(WorkspaceSelectorSchema, { selection: name === "" ? { case: undefined } : { case: "workspace", value: name } });
}

/** Selects every workspace. Lists and watches alone take it. */
export function allWorkspaces(): WorkspaceSelector {
  return create(WorkspaceSelectorSchema, { selection: { case: "allWorkspaces", value: {} } });
}
