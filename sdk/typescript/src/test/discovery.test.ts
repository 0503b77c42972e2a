// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { findGateway, type GatewayOptions, surroundings } from "../discovery.js";

const file = (api: string, token = "admin.token"): string => JSON.stringify({ api, token_file: token, ca_file: "ca.crt", other: 1 });
const root = "/var/lib/sandbox-gateway";
const files: Record<string, string> = {
  [`${root}/client.json`]: file("https://local:1"), [`${root}/admin.token`]: "root's\n", [`${root}/ca.crt`]: "root CA",
  "/home/u/.local/state/sandbox-gateway/client.json": file("https://local:1"),
  "/home/u/.local/state/sandbox-gateway/admin.token": "home's", "/home/u/.local/state/sandbox-gateway/ca.crt": "home CA",
  "/xdg/sandbox-gateway/client.json": '{"api":"https://local:1","token_file":"/t"}',
  "/dir/client.json": file("https://dir:1"), "/dir/admin.token": "dir's", "/dir/ca.crt": "dir CA",
  "/empty/client.json": '{"api":"https://local:1","token_file":"none"}', "/empty/none": " \n",
  "/lost/client.json": '{"api":"https://local:1","token_file":"lost"}',
  "/bad/client.json": "api: x", "/noapi/client.json": "{}", "/t": "file's", "/c": "file CA", "/e": "env CA",
};
const home = { HOME: "/home/u" };
const env = { SANDBOX_GATEWAY: "https://env:1", SANDBOX_TOKEN: "env's", SANDBOX_CA_FILE: "/e" };

const table: { name: string; options?: GatewayOptions; env?: Record<string, string>; uid?: number; want?: string; fault?: RegExp }[] = [
  { name: "root", uid: 0, want: "https://local:1 root's root CA" },
  { name: "home", env: home, want: "https://local:1 home's home CA" },
  { name: "XDG before home, absolute names", env: { ...home, XDG_STATE_HOME: "/xdg" }, want: "https://local:1 file's undefined" },
  { name: "state directory of the environment", env: { ...home, SANDBOX_GATEWAY_STATE_DIR: "/dir" }, want: "https://dir:1 dir's dir CA" },
  { name: "environment before client.json", env: { ...home, ...env }, want: "https://env:1 env's env CA" },
  { name: "options before the environment", options: { address: "https://o:1", tokenFile: "/t", caFile: "/c" }, env, want: "https://o:1 file's file CA" },
  { name: "each on its own", options: { address: "https://o:1" }, env, want: "https://o:1 env's env CA" },
  { name: "a token file of the environment", env: { SANDBOX_GATEWAY: "https://env:1", SANDBOX_TOKEN_FILE: "/t" }, want: "https://env:1 file's undefined" },
  { name: "an empty token is none at all", options: { token: "" }, env: home, want: "https://local:1  home CA" },
  { name: "stateDir before the environment", options: { stateDir: "/dir" }, env, want: "https://dir:1 dir's dir CA" },
  { name: "address before stateDir", options: { address: "https://o:1", stateDir: "/dir", token: "own" }, want: "https://o:1 own undefined" },
  { name: "the same gateway, named twice", options: { address: "https://local:1/" }, uid: 0, want: "https://local:1/ root's root CA" },
  { name: "another gateway is not sent the local token", options: { address: "https://evil:1" }, uid: 0, want: "https://evil:1  undefined" },
  { name: "nor by the environment", env: { ...home, SANDBOX_GATEWAY: "https://evil:1" }, want: "https://evil:1  undefined" },
  { name: "nothing", env: { HOME: "/nobody" }, fault: /no gateway found in \/nobody\/\.local\/state\/sandbox-gateway/ },
  { name: "no home", fault: /without HOME/ },
  { name: "an explicit stateDir does not fall back", options: { stateDir: "/none" }, env, fault: /stateDir: no gateway found in \/none/ },
  { name: "no JSON", options: { stateDir: "/bad" }, fault: /client\.json: is not what a gateway writes/ },
  { name: "no api", options: { stateDir: "/noapi" }, fault: /it has no "api"/ },
  { name: "an empty token file", options: { stateDir: "/empty" }, fault: /the token file \/empty\/none is empty/ },
  { name: "a lost token file", options: { stateDir: "/lost" }, fault: /cannot read the token in \/lost\/lost/ },
  { name: "a named token file is not passed over", options: { tokenFile: "/gone" }, uid: 0, fault: /tokenFile: cannot read the token/ },
];

for (const c of table) {
  test(`discovery: ${c.name}`, async () => {
    const around = {
      env: c.env ?? {},
      uid: c.uid ?? 1000,
      readFile: async (name: string): Promise<string> => files[name] ?? Promise.reject(Object.assign(new Error("not there"), { code: "ENOENT" })),
    };
    const found = findGateway(c.options ?? {}, around);
    if (c.fault) {
      await assert.rejects(found, c.fault);
      return;
    }
    const { address, token, ca } = await found;
    assert.equal(`${address} ${token} ${ca}`, c.want);
  });
}

test("discovery: files are read to a limit, authorities to a larger one", async () => {
  const dir = await mkdtemp(join(tmpdir(), "discovery-"));
  try {
    const [large, huge] = [join(dir, "large"), join(dir, "huge")];
    await writeFile(large, "x".repeat(300 << 10)); // as many as a system has
    await writeFile(huge, "x".repeat((1 << 20) + 1));
    const found = (options: GatewayOptions): ReturnType<typeof findGateway> => findGateway({ address: "https://a:1", ...options }, { ...surroundings(), env: {} });
    assert.equal((await found({ token: "t", caFile: large })).ca?.length, 300 << 10);
    await assert.rejects(found({ token: "t", caFile: huge }), (e: Error) => (e.cause as Error).message.endsWith("is larger than 1024 KiB"));
    await assert.rejects(found({ token: "t", caFile: "/dev/zero" }), /caFile: cannot read the authority in \/dev\/zero/);
    await assert.rejects(found({ tokenFile: large }), (e: Error) => (e.cause as Error).message.endsWith("is larger than 64 KiB"));
  } finally {
    await rm(dir, { recursive: true });
  }
});
