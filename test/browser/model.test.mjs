// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import assert from 'node:assert/strict';
import test from 'node:test';
import { matches, Model, spanText, wordOf } from '../../gateway/web/static/model.js';

let now = 0;

const service = (number, more = {}) => ({
  number, workspace: 'default', sandbox: 'web', name: '', port: 80, url: '', phase: 'READY', state: 'HEALTHY', reason: 'OK', code: 200,
  message: '', age: 1000, recorded: 0, transitions: [{ at: 0, state: 'HEALTHY', cause: 'REPORT' }], ...more,
});

function live(...services) {
  now = 100000;
  const m = new Model(() => now);
  m.began();
  m.take({ complete: true, services, sandboxes: [] });
  return m;
}

const state = (m, n = 1) => { const v = m.verdict(m.services.get(n)); return `${v.word} ${v.reason}`; };

test('the words of the command line', () => {
  const words = [['HEALTHY', '/', 'Ready'], ['HEALTHY', undefined, 'Responsive'], ['UNHEALTHY', '/', 'Not ready'],
    ['UNHEALTHY', undefined, 'Unresponsive'], ['UNKNOWN', '/', 'Unknown'], ['', '/', 'Unknown'], ['FINE', '/', 'Unknown'], [undefined, undefined, 'Unknown']];
  for (const [s, check, want] of words) assert.equal(wordOf(s, check), want);
});

test('nothing is shown before the full state is there', () => {
  const m = new Model(() => now);
  m.began();
  m.take({ complete: false, services: [service(1)] });
  assert.ok(m.lost && m.services.size === 0);
  m.take({ complete: true, services: [service(2, { name: 'b' })] });
  assert.ok(!m.lost && m.services.size === 2);
});

test('T24: a lost connection makes everything unknown until the full state is there again', () => {
  const m = live(service(1), service(2, { name: 'old' }));
  m.ended();
  assert.equal(state(m), 'Unknown ConnectionLost');
  m.began();
  m.take({ complete: false, services: [service(1)] });
  assert.equal(state(m), 'Unknown ConnectionLost');
  m.take({ complete: true });
  assert.equal(state(m), 'Responsive OK');
  assert.equal(m.services.has(2), false);
});

test('T09: age alone makes a state unknown, and says when', () => {
  const m = live(service(1, { age: 4000 }), service(2, { state: 'UNHEALTHY', age: 9000 }), service(3, { state: 'UNKNOWN', reason: 'NotObserved', age: undefined }));
  assert.equal(m.due() - now, 6000);
  now += 5999;
  assert.equal(state(m, 2), 'Unresponsive OK');
  now += 1;
  assert.equal(state(m, 2), 'Unknown Stale');
  assert.equal(m.due() - now, 5000);
  now += 5000;
  assert.equal(state(m), 'Unknown Stale');
  assert.equal(state(m, 3), 'Unknown NotObserved');
  assert.equal(m.silent(), false);
  m.take({ complete: true, ages: [[1, 200], [9, 1]] });
  assert.equal(state(m), 'Responsive OK');
  assert.equal(m.age(m.services.get(1)), 200);
  now += 15000;
  assert.equal(m.silent(), true);
});

test('only what has changed its state is news', () => {
  const m = live(service(1), service(2, { name: 'b' }));
  assert.deepEqual(m.take({ complete: true, services: [service(1, { reason: 'Refused' })] }), []);
  const news = m.take({ complete: true, services: [service(2, { name: 'b', state: 'UNHEALTHY' }), service(3, { name: 'c' })] });
  assert.deepEqual(news.map((s) => s.number), [2]);
  m.take({ complete: true, removed: [2] });
  assert.deepEqual([...m.services.keys()], [1, 3]);
});

test('sandboxes without services are listed; what the watch says is newer', () => {
  const m = live(service(1, { sandbox: 'b', phase: 'STOPPED' }));
  m.take({ complete: true, sandboxes: [{ workspace: 'default', name: 'b', phase: 'READY', message: 'm' }, { workspace: 'a', name: 'z', phase: 'ERROR', message: 'n' }] });
  assert.deepEqual(m.groups().map((g) => [g.workspace, g.name, g.phase, g.message, g.services.length]), [['a', 'z', 'ERROR', 'n', 0], ['default', 'b', 'STOPPED', '', 1]]);
  const [idle, used] = m.groups();
  now += 15000;
  assert.equal(m.phase(idle).word, 'Unknown');
  assert.equal(m.phase(used).word, 'Stopped');
  m.ended();
  assert.equal(m.phase(used).word, 'Unknown');
});

test('the strip', () => {
  const m = live(service(1, { transitions: [
    { at: 90000, state: 'UNKNOWN' }, { at: 50000, state: 'HEALTHY' }, { at: 40000, state: 'HEALTHY' }, { at: 10000, state: 'UNHEALTHY' }] }));
  const s = m.services.get(1);
  assert.deepEqual(m.past(s, 60000), [{ from: 60000, to: 50000, tone: 'unsure' }, { from: 50000, to: 10000, tone: 'good' }, { from: 10000, to: 0, tone: 'bad' }]);
  m.measure();
  assert.equal(m.span, 300000);
  now += 5000;
  m.ended();
  now += 2000;
  assert.deepEqual(m.past(s, 20000), [{ from: 20000, to: 17000, tone: 'good' }, { from: 17000, to: 2000, tone: 'bad' }, { from: 2000, to: 0, tone: 'unsure' }]);
});

test('the search finds what is shown', () => {
  const s = service(1, { name: 'api', check: '/ready' });
  const v = { word: 'Not ready', reason: 'BadStatus' };
  for (const [text, want] of [['', true], ['api', true], ['web 80', true], ['badstatus api', true], ['not ready', true], ['/ready', true], ['web docs', false]]) {
    assert.equal(matches(text.split(' ').filter(Boolean), s, v), want, text);
  }
});

test('durations', () => {
  for (const [ms, want] of [[0, '0 s'], [59999, '59 s'], [60000, '1 min 0 s'], [3661000, '1 h 1 min'], [90000000, '1 d 1 h']]) assert.equal(spanText(ms), want);
});
