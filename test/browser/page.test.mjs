// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import assert from 'node:assert/strict';
import test from 'node:test';
import { control, gateway, picture, sandboxctl, useBrowser } from './lib.mjs';

const browser = useBrowser();
let page;

const row = (name) => page.locator('li', { has: page.getByRole('link', { name, exact: true }) });

async function state(name, word, reason) {
  await row(name).locator('.state', { hasText: new RegExp(`^${word}$`) }).waitFor();
  if (reason) await row(name).locator('.why', { hasText: reason }).waitFor();
}

test('every state is a word, a picture and a reason', async () => {
  page = await browser.open(gateway);
  await state('(unnamed)', 'Responsive', 'OK 200');
  await state('api', 'Ready', 'the readiness path answered 200');
  await state('gone', 'Unresponsive', 'Refused');
  for (const name of ['(unnamed)', 'api', 'gone']) assert.equal(await row(name).locator('.state svg path').count(), 1);
  assert.equal(await page.locator('section', { hasText: 'idle' }).locator('.phase').textContent(), 'Provisioning: no agent has connected yet');
  assert.equal(await page.locator('#link').textContent(), 'Live');
  assert.equal(await page.getByRole('button', { name: 'Sign out' }).isVisible(), false);
});

test('a flip is seen live and told politely', async () => {
  await control('api', { code: 503 });
  await state('api', 'Not ready', 'BadStatus');
  await page.waitForFunction(() => document.getElementById('news').textContent.includes('web api is not ready'));
  assert.match(await page.title(), /^2 down/);
  assert.match(await row('api').getByRole('img').getAttribute('aria-label'), /^Last .*: up \d+ % of the time, \d+ change/);
  await control('api', { code: 200 });
  await state('api', 'Ready');
});

test('ages count up and come back', async () => {
  const ages = await page.evaluate(() => new Promise((resolve) => {
    const seen = new Set();
    const look = () => {
      seen.add(parseInt(document.querySelector('.age').textContent, 10));
      if (seen.size >= 4) resolve([...seen]); else setTimeout(look, 100);
    };
    look();
  }));
  // A check every 5 s, of which a message every 4 s tells.
  assert.ok(Math.max(...ages) <= 10, `ages ${ages}`);
});

test('services come and go without a reload', async () => {
  await sandboxctl('service', 'expose', 'idle', '2', 'late');
  await state('late', 'Unknown', 'SandboxNotReady');
  await sandboxctl('service', 'delete', 'idle', 'late');
  await row('late').waitFor({ state: 'detached' });
});

test('the keyboard does everything', async () => {
  await page.keyboard.press('/');
  await page.keyboard.type('refused');
  await page.waitForFunction(() => document.querySelectorAll('li:not([hidden])').length === 1);
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => document.querySelectorAll('li:not([hidden])').length === 3);
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), '(unnamed)');
  await page.keyboard.press('Tab');
  await page.keyboard.press('ArrowDown');
  assert.match(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), /^Details of web api$/);
  await page.keyboard.press('Enter');
  await row('api').locator('tbody tr', { hasText: 'Not ready' }).first().waitFor();
  assert.equal(await row('api').getByRole('button').getAttribute('aria-expanded'), 'true');
});

test('filters', async () => {
  const filter = page.getByRole('button', { name: /^Down/ });
  await filter.click();
  assert.equal(await filter.getAttribute('aria-pressed'), 'true');
  assert.equal(await page.locator('li:visible').count(), 1);
  await page.getByRole('button', { name: /^All/ }).click();
  assert.equal(await page.locator('li:visible').count(), 3);
});

// The ratio of contrast of every visible text, as WCAG computes it.
async function faint() {
  return page.evaluate(() => {
    const rgb = (c) => c.match(/[\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
      .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const out = [];
    for (const e of document.querySelectorAll('body *')) {
      if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility() || e.closest('.hidden, .skip')) continue;
      let at = e;
      while (rgb(getComputedStyle(at).backgroundColor)[3] === 0) at = at.parentElement;
      const [a, b] = [light(rgb(getComputedStyle(e).color)), light(rgb(getComputedStyle(at).backgroundColor))];
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      if (ratio < 4.5) out.push(`${e.tagName}.${e.className} "${e.textContent}": ${ratio.toFixed(2)}`);
    }
    return out;
  });
}

for (const scheme of ['light', 'dark']) {
  test(`contrast is enough, ${scheme}`, async () => {
    await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
    assert.deepEqual(await faint(), []);
    await picture(page, `page-${scheme}.png`);
  });
}

test('it fits a telephone', async () => {
  await page.setViewportSize({ width: 380, height: 760 });
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  await picture(page, 'page-narrow.png');
  await page.setViewportSize({ width: 1180, height: 760 });
});

test('a gateway that is killed leaves nothing but Unknown, at once, and a banner', async () => {
  await control('kill');
  for (const name of ['(unnamed)', 'api', 'gone']) await state(name, 'Unknown', 'ConnectionLost');
  await page.locator('#banner', { hasText: 'Connection to the gateway lost' }).waitFor();
  assert.match(await page.title(), /^Connection lost/);
  assert.deepEqual(await page.locator('.phase').allTextContents(), ['Unknown', 'Unknown']);
  assert.deepEqual(await faint(), []);
  await picture(page, 'page-lost.png');
  await control('start');
  await state('api', 'Ready');
  await state('gone', 'Unresponsive');
  assert.equal(await page.locator('#banner').isVisible(), false);
});

test('T24: a gateway that says nothing for 15 s is lost too', async () => {
  await control('freeze');
  const began = Date.now();
  await state('api', 'Unknown');
  const took = Date.now() - began;
  await page.locator('#banner', { hasText: 'lost' }).waitFor();
  await control('thaw');
  await state('api', 'Ready');
  assert.ok(took < 17000, `it took ${took} ms`);
});

test('no page complained', () => assert.deepEqual(browser.faults, []));
