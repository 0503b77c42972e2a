// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

/**
 * What tests of users need: a gateway in memory, and a clock that stands still.
 *
 *     const gateway = new FakeGateway();
 *     gateway.putSandbox({ metadata: { name: "web" } });
 *     gateway.putService({ sandbox: "web", targetPort: 8080 }, { state: ServiceHealthState.HEALTHY });
 *     const client = gateway.client();
 *
 * @module
 */
export type { Clock } from "../clock.js";
export { FakeClock } from "./clock.js";
export { type FakeFailure, FakeGateway, type FakeOptions } from "./gateway.js";
