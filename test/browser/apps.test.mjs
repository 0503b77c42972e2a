// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import test from 'node:test';
import { control, gateway, picture, serviceURL, useBrowser } from './lib.mjs';

const browser = useBrowser();

test('T22: Vite, with hot reload over its WebSocket', async () => {
  const page = await browser.context.newPage();
  const sockets = [];
  page.on('websocket', (ws) => sockets.push(ws.url()));
  const connected = page.waitForEvent('console', (m) => m.text().includes('[vite] connected'));
  await page.goto(serviceURL('apps', 'vite'));
  await page.locator('#out', { hasText: 'one' }).waitFor();
  await connected;
  await page.evaluate(() => { window.mark = 1; });
  await control('edit');
  await page.locator('#out', { hasText: 'two' }).waitFor();
  assert.equal(await page.evaluate(() => window.mark), 1, 'the page was loaded again');
  assert.ok(sockets.length > 0 && sockets.every((u) => u.startsWith(serviceURL('apps', 'vite').replace('http:', 'ws:'))), `sockets ${sockets}`);
  await page.close();
});

test('T22: a notebook in Jupyter computes', async () => {
  const url = serviceURL('apps', 'jupyter');
  const page = await browser.open(`${url}tree?token=a-token-of-jupyter`);
  await page.getByText('sum.ipynb').waitFor();
  await page.goto(`${url}notebooks/sum.ipynb`);
  await page.waitForFunction(() => window.Jupyter?.notebook?.kernel?.is_connected());
  await page.locator('.code_cell .CodeMirror').first().click();
  await page.keyboard.press('Shift+Enter');
  await page.locator('.output_text', { hasText: /^\s*42\s*$/ }).waitFor();
  await picture(page, 'jupyter.png');
  await page.close();
});

test('an event stream, each event at once', async () => {
  const page = await browser.open(serviceURL('apps'));
  await page.evaluate(() => {
    window.seen = [];
    new EventSource('/events').onmessage = (e) => window.seen.push(e.data);
  });
  for (let n = 0; n < 4; n++) {
    await page.waitForFunction((text) => window.seen.at(-1) === text, `tick ${n}`);
    if (n < 3) await control('tick');
  }
  await page.close();
});

test('a file of 64 MiB is uploaded, byte by byte', async () => {
  const bytes = randomBytes(64 << 20);
  const file = path.join(process.env.SCRATCH, 'file');
  await writeFile(file, bytes);
  const page = await browser.open(serviceURL('apps'));
  await page.locator('#file').setInputFiles(file);
  const answer = await page.evaluate(async () => (await fetch('/upload', {
    method: 'POST', body: document.getElementById('file').files[0], signal: AbortSignal.timeout(60000),
  })).text());
  assert.equal(answer, `${bytes.length} ${createHash('sha256').update(bytes).digest('hex')} <nil>`);
  await page.close();
});

// T23: scripts of a sandbox reach neither another one nor the gateway.
test('T23: a page of a service reads nothing of the gateway', async () => {
  const page = await browser.open(serviceURL('apps'));
  const own = `http://localhost:${new URL(gateway).port}/`;
  const seen = await page.evaluate(async (own) => {
    const out = {};
    for (const at of ['page/events', 'page/session', 'readyz']) {
      out[at] = await fetch(own + at, { credentials: 'include' }).then((r) => r.status, () => 'refused');
    }
    out.script = await new Promise((done) => {
      const s = document.createElement('script');
      s.onload = () => done('ran');
      s.onerror = () => done('refused');
      s.src = `${own}page/clock.js`;
      document.head.append(s);
    });
    return out;
  }, own);
  assert.deepEqual(seen, { 'page/events': 'refused', 'page/session': 'refused', readyz: 'refused', script: 'refused' });
  const frame = await page.evaluate(async (own) => {
    const f = document.createElement('iframe');
    f.src = own;
    const loaded = new Promise((done) => { f.onload = done; });
    document.body.append(f);
    await loaded;
    try { return f.contentDocument === null ? 'opaque' : f.contentDocument.URL; } catch (e) { return e.name; }
  }, own);
  assert.equal(frame, 'opaque');
  assert.equal(await page.frames()[1].getByText('Sandbox gateway').count(), 0, 'the page is shown in a frame');
  await page.close();
});
