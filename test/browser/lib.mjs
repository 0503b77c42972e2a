// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import assert from 'node:assert/strict';
import { mkdtemp } from 'node:fs/promises';
import path from 'node:path';
import { after, before } from 'node:test';
import { chromium } from 'playwright-core';

export const gateway = process.env.GATEWAY;

// control makes the stage do something.
export async function control(name, query = {}) {
  const r = await fetch(`${process.env.CONTROL}/${name}?${new URLSearchParams(query)}`);
  assert.equal(r.status, 200, name);
}

export function sandboxctl(...args) {
  return control('sandboxctl', args.map((a) => ['arg', a]));
}

// useBrowser gives the tests of a file one browser with a profile of its own.
// It returns functions to open pages, and whatever any page complained of.
export function useBrowser(options = {}) {
  const b = { faults: [] };
  before(async () => {
    const profile = await mkdtemp(path.join(process.env.SCRATCH, 'profile-'));
    b.context = await chromium.launchPersistentContext(profile, {
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', headless: true, viewport: { width: 1180, height: 760 },
      args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
      ...options,
    });
    b.context.setDefaultTimeout(20000);
  });
  after(() => b.context?.close());
  b.open = async (url) => {
    const page = await b.context.newPage();
    page.on('pageerror', (e) => b.faults.push(`${url}: ${e.message}`));
    page.on('console', (m) => { if (/Content Security Policy|Trusted/i.test(m.text())) b.faults.push(m.text()); });
    await page.goto(url);
    return page;
  };
  return b;
}

// serviceURL is where a service is opened.
export function serviceURL(sandbox, service = '') {
  const { port } = new URL(gateway);
  return `http://default--${sandbox}${service && `--${service}`}.sandbox.localhost:${port}/`;
}

// picture keeps what a page shows, where somebody asks for it: IMAGES=DIR.
export async function picture(page, name) {
  if (process.env.IMAGES) await page.screenshot({ path: path.join(process.env.IMAGES, name) });
}
