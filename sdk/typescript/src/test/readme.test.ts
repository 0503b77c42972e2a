// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, symlink, writeFile, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { after, before, test } from "node:test";

import ts from "typescript";

// The examples of the README are type-checked and run as a user has them: by
// the package's name, through its exports. What needs a gateway runs where
// README_STATE_DIR names one; test/conformance does that.
const root = fileURLToPath(new URL("../../", import.meta.url));
const run = promisify(execFile);
let dir = "";
let faults = "";
const names: string[] = [];

before(async () => {
  dir = await mkdtemp(join(root, "dist", "readme-"));
  await mkdir(join(dir, "node_modules", "@sandbox-agent"), { recursive: true });
  await symlink(root, join(dir, "node_modules", "@sandbox-agent", "sdk"));
  await writeFile(join(dir, "package.json"), '{"type":"module"}');
  const text = await readFile(join(root, "README.md"), "utf8");
  for (const [i, match] of [...text.matchAll(/```ts\n(.*?)```/gs)].entries()) {
    names.push(join(dir, `example${i}.ts`));
    await writeFile(names[i]!, match[1]!);
  }
  const program = ts.createProgram(names, {
    strict: true, target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext,
    lib: ["lib.es2023.d.ts", "lib.esnext.disposable.d.ts"], types: ["node"], typeRoots: [join(root, "node_modules", "@types")], preserveSymlinks: false,
  });
  const host = { getCanonicalFileName: (f: string) => f, getCurrentDirectory: () => dir, getNewLine: () => "\n" };
  faults = ts.formatDiagnostics([...ts.getPreEmitDiagnostics(program), ...program.emit().diagnostics], host);
});
after(() => rm(dir, { recursive: true }));

test("the examples compile in strict mode", () => {
  assert.equal(names.length, 3);
  assert.equal(faults, "");
});

test("the example of the fake gateway does what it says", async () => {
  const { stdout } = await run(process.execPath, [join(dir, "example2.js")]);
  assert.equal(stdout, "WatchStale\n");
});

const stateDir = process.env["README_STATE_DIR"];

test("the first example, against a real gateway", { skip: stateDir ? false : "README_STATE_DIR names none" }, async () => {
  const env = { ...process.env, SANDBOX_GATEWAY_STATE_DIR: stateDir };
  const { stdout } = await run(process.execPath, [join(dir, "example0.js")], { env });
  assert.match(stdout, /^https?:\/\/default--hello\..* is healthy\n$/);
});
