// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import { connect, healthOf, WaitEndedError, WaitTimeoutError } from "@sandbox-agent/sdk";

// Finds the gateway of this machine, or the one that the environment names.
const client = await connect();

// Start something, wait until it is ready, go on.
await client.createSandbox({
  name: "hello-typescript",
  annotations: { "sandbox-agent.dev/driver": "local" },
  spec: { command: ["python3", "-m", "http.server", "8080", "--bind", "127.0.0.1"] },
  serviceExposures: [{ targetPort: 8080, readinessCheck: { path: "/" } }],
});
try {
  const { service } = await client.waitForService({ sandbox: "hello-typescript" }, { timeoutMs: 60_000 });
  const url = new URL(service!.url);
  console.log(`${url} is ${healthOf(service).state}`);

  // Browsers take every name below localhost for this machine, Node asks a
  // resolver, which may not: call localhost, and leave the name in Host.
  const answer = await fetch(`http://localhost:${url.port}/`, { headers: { host: url.host } });
  console.log(`it answers ${answer.status} ${answer.statusText}`);
} catch (e) {
  if (!(e instanceof WaitTimeoutError || e instanceof WaitEndedError)) throw e;
  console.error(`not ready: ${e.failure.lastHealth?.reason}`);
  process.exitCode = 1;
} finally {
  await client.deleteSandbox({ name: "hello-typescript" });
  client.close();
}
