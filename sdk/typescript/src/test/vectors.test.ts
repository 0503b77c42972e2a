// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { createRegistry, type DescMessage, equals, fromBinary, fromJson, type Message, toBinary, toJson } from "@bufbuild/protobuf";

import { healthOf, type ServiceEndpointResponse } from "../index.js";
import { file_openshell_datamodel_v1_datamodel } from "../gen/openshell/datamodel/v1/datamodel_pb.js";
import { file_openshell_v1_openshell, type ListServicesResponse } from "../gen/openshell/v1/openshell_pb.js";
import { file_sandbox_v1_watch } from "../gen/sandbox/v1/watch_pb.js";

interface Case {
  name: string;
  message: string;
  json: boolean;
  unknown_fields: boolean;
  views: Record<string, unknown>[];
}

const root = new URL("../../../../api/testdata/", import.meta.url);
const text = (name: string): string => readFileSync(new URL(name, root), "utf8");
const registry = createRegistry(file_openshell_datamodel_v1_datamodel, file_openshell_v1_openshell, file_sandbox_v1_watch);
const cases = JSON.parse(text("cases.json")) as Case[];

test("there are vectors", () => assert.ok(cases.length >= 40));

for (const c of cases) {
  test(`vector ${c.name}`, () => {
    const desc = registry.getMessage(c.message) as DescMessage;
    const bytes = Buffer.from(text(`vectors/${c.name}.hex`).trim(), "hex");
    const message = fromBinary(desc, bytes);
    assert.equal(Buffer.from(toBinary(desc, message)).toString("hex"), bytes.toString("hex"), "encodes to the same bytes");
    assert.deepEqual(answers(message).map(view), c.views);
    if (!c.json) {
      return;
    }
    const json = JSON.parse(text(`vectors/${c.name}.json`));
    assert.deepEqual(toJson(desc, message), json, "has the same JSON");
    const again = fromJson(desc, json);
    assert.ok(c.unknown_fields || equals(desc, again, message), "its JSON is the same message");
  });
}

function answers(m: Message): ServiceEndpointResponse[] {
  switch (m.$typeName) {
    case "openshell.v1.ServiceEndpointResponse":
      return [m as ServiceEndpointResponse];
    case "openshell.v1.ListServicesResponse":
      return (m as ListServicesResponse).services;
    default:
      return [];
  }
}

function view(r: ServiceEndpointResponse): Record<string, unknown> {
  const h = healthOf(r);
  return {
    sandbox: r.endpoint?.sandbox ?? "",
    service: r.endpoint?.name ?? "",
    state: h.state,
    ready: h.ready,
    words: words(h),
    reason: h.reason,
    message: h.message,
    http_status: h.httpStatus ?? 0,
    failures: h.failures,
    last_checked: time(h.lastChecked, r.health?.lastCheckedTime?.nanos),
    last_transition: time(h.lastTransition, r.health?.lastTransitionTime?.nanos),
    latency_ns: Math.round(h.latencyMs * 1e6),
    address: h.address,
  };
}

function words(h: { state: string; ready: boolean; reason: string }): string {
  switch (h.state) {
    case "healthy":
      return h.ready ? "Ready" : "Responsive";
    case "unhealthy":
      return h.ready ? "Not ready" : "Unresponsive";
    default:
      return h.reason === "" ? "Unknown" : `Unknown (${h.reason})`;
  }
}

/** A Date knows milliseconds; what the vector has below that is taken from the message. */
function time(d: Date | undefined, nanos = 0): string {
  if (!d) {
    return "";
  }
  assert.equal(d.getUTCMilliseconds(), Math.floor(nanos / 1e6));
  const fraction = String(nanos).padStart(9, "0").replace(/0+$/, "");
  return d.toISOString().replace(/\.\d+Z$/, fraction === "" ? "Z" : `.${fraction}Z`);
}
