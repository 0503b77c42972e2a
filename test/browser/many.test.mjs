// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import assert from 'node:assert/strict';
import test from 'node:test';
import { control, gateway, useBrowser } from './lib.mjs';

const browser = useBrowser();
let page;

test('a thousand services are there soon', async (t) => {
  const began = Date.now();
  page = await browser.open(gateway);
  await page.waitForFunction(() => document.querySelectorAll('li').length === 1000);
  t.diagnostic(`shown ${Date.now() - began} ms after the address was entered`);
  assert.match(await page.locator('[data-filter=all]').textContent(), /1000/);
  await page.evaluate(() => {
    window.slowest = 0;
    new PerformanceObserver((l) => { for (const e of l.getEntries()) window.slowest = Math.max(window.slowest, e.duration); }).observe({ entryTypes: ['longtask'] });
  });
});

test('the search is quick', async (t) => {
  await page.getByLabel('Search').click();
  const began = Date.now();
  await page.keyboard.type('box-49 service-19');
  await page.waitForFunction(() => document.querySelectorAll('li:not([hidden])').length === 1);
  t.diagnostic(`17 letters took ${Date.now() - began} ms`);
  await page.locator('li:visible .state', { hasText: 'Ready' }).waitFor();
});

test('a flip is seen among them', async () => {
  await control('last', { code: 503 });
  await page.locator('li:visible .state', { hasText: 'Not ready' }).waitFor();
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => document.querySelectorAll('li:not([hidden])').length === 1000);
});

// Times are for whoever reads them: a busy machine says nothing about the page.
test('what is off screen costs nothing', async (t) => {
  const painted = () => page.evaluate(() => document.querySelectorAll('.strip rect:first-child').length);
  assert.ok(await painted() < 100, `${await painted()} strips were drawn`);
  const frame = await page.evaluate(() => new Promise((done) => {
    let n = 0;
    let slowest = 0;
    let last = performance.now();
    const step = (at) => {
      slowest = Math.max(slowest, at - last);
      last = at;
      window.scrollBy(0, 600);
      if (++n < 60) requestAnimationFrame(step); else done(slowest);
    };
    requestAnimationFrame(step);
  }));
  t.diagnostic(`the slowest of 60 frames of scrolling took ${Math.round(frame)} ms, the longest task ${Math.round(await page.evaluate(() => window.slowest))} ms`);
  await page.waitForFunction(() => [...document.querySelectorAll('li')].findLast((li) => li.getBoundingClientRect().top < innerHeight - 50).querySelector('rect'));
});

test('no page complained', () => assert.deepEqual(browser.faults, []));
