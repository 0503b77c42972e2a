// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import assert from 'node:assert/strict';
import test from 'node:test';
import { gateway, picture, useBrowser } from './lib.mjs';

const browser = useBrowser();
const url = `http://localhost:${new URL(gateway).port}/`;

test('the token is asked for, and never seen again', async () => {
  const page = await browser.open(url);
  const token = page.getByLabel('Admin token');
  await token.waitFor();
  assert.equal(await page.locator('li').count(), 0);
  await token.fill('wrong');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').filter({ hasText: 'not the admin token' }).waitFor();
  await picture(page, 'page-sign-in.png');
  await token.fill(process.env.TOKEN);
  await page.keyboard.press('Enter');
  await page.locator('li').waitFor();
  assert.equal(await page.evaluate(() => document.cookie), '');
  const [cookie] = await browser.context.cookies();
  assert.ok(cookie.httpOnly && cookie.sameSite === 'Strict' && cookie.domain === 'localhost' && !cookie.value.includes(process.env.TOKEN));
  assert.ok(!(await page.content()).includes(process.env.TOKEN));
  await page.reload();
  await page.locator('li').waitFor();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await token.waitFor();
  assert.equal(await page.locator('li:visible').count(), 0);
});

test('a page of somebody else reads nothing', async () => {
  const page = await browser.open(process.env.CONTROL);
  const seen = await page.evaluate(async (other) => {
    const out = [];
    for (const path of ['page/session', 'page/events', 'page/main.js']) {
      out.push(await fetch(other + path, { credentials: 'include', mode: 'cors' }).then((r) => r.status, () => 'refused'));
    }
    return out;
  }, url);
  assert.deepEqual(seen, ['refused', 'refused', 'refused']);
});

test('no page complained', () => assert.deepEqual(browser.faults, []));
