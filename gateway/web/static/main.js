// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import { Board } from '/page/board.js';
import { newClock } from '/page/clock.js';
import { Link, signIn, signOut } from '/page/link.js';
import { Model, spanText } from '/page/model.js';

const $ = (id) => document.getElementById(id);
const model = new Model(newClock());
const board = new Board(model, $('list'), $('nothing'));
let begun = false; // whether anything was ever shown

function show(state, text) {
  $('link').dataset.state = state;
  if ($('link').textContent !== text) $('link').textContent = text;
}

function banner(text) {
  if ($('banner').textContent !== text) $('banner').textContent = text;
  $('banner').hidden = !text;
}

// news tells those who do not see the page, at most every two seconds.
const waiting = new Map();
let speaking = null;
function news(services) {
  for (const s of services) waiting.set(s.number, s);
  if (speaking || !waiting.size) return;
  speaking = setTimeout(() => {
    const list = [...waiting.values()];
    const say = (s) => `${s.sandbox} ${s.name || ''} is ${model.verdict(s).word.toLowerCase()}`;
    $('news').textContent = list.length > 3 ? `${list.length} services have changed` : list.map(say).join('. ');
    waiting.clear();
    speaking = null;
  }, 2000);
}

function counts() {
  const n = board.counts();
  for (const b of document.querySelectorAll('[data-filter]')) {
    const text = String(n[b.dataset.filter]);
    if (b.firstElementChild.textContent !== text) b.firstElementChild.textContent = text;
  }
  const span = `Last ${Math.round(model.span / 60000)} min:`;
  if ($('span').textContent !== span) $('span').textContent = span;
  document.title = model.lost ? 'Connection lost · Sandbox gateway' : n.bad ? `${n.bad} down · Sandbox gateway` : 'Sandbox gateway';
}

// state shows all states anew; whole, if there may be others than before.
function state(whole) {
  if (whole) board.rebuild(); else if (board.judge()) board.paint();
  counts();
}

const link = new Link({
  open(session) {
    model.began();
    $('out').hidden = session.open;
    $('about').textContent = session.version ? `sandbox-gateway ${session.version}` : '';
  },
  message(m) {
    const lost = model.lost;
    const changed = model.take(m);
    if (model.lost) return; // the full state is still arriving
    if (lost) {
      begun = true;
      banner('');
      show('live', 'Live');
      $('sign-in').hidden = true;
      $('tools').hidden = $('list').hidden = $('legend').hidden = false;
      $('news').textContent = 'Connected to the gateway';
    }
    state(lost || m.services || m.removed || m.sandboxes);
    if (lost) board.paint();
    news(changed);
  },
  problem(text) { banner(`The gateway says: ${text}`); },
  lost() { lose(); },
  signIn() {
    model.ended();
    $('sign-in').hidden = false;
    for (const id of ['tools', 'list', 'nothing', 'out', 'legend']) $(id).hidden = true;
    banner('');
    show('waiting', 'Not signed in');
    $('token').focus();
  },
});

function lose() {
  const first = !model.lost;
  model.ended();
  if (first) {
    state(false);
    board.paint();
  }
  since();
}

// since says for how long the connection has been lost.
function since() {
  if (!model.lost || !$('sign-in').hidden) return;
  if (!begun) return show('waiting', 'Connecting: the gateway does not answer yet');
  show('lost', `Connection lost ${spanText(model.now() - model.lostAt)} ago`);
  banner('Connection to the gateway lost: every state is unknown. Connecting again by itself.');
}

// tick comes every second, and whenever age alone changes a state.
let beats = 0;
let timer;
function tick() {
  if (link.stream && model.silent()) link.restart();
  since();
  board.tick();
  if (!model.lost) state(false);
  if (++beats % 5 === 0) board.paint();
  clearTimeout(timer);
  timer = setTimeout(tick, Math.min(Math.max(model.due() - model.now(), 10), 1000));
}
tick();
document.addEventListener('visibilitychange', () => { if (!document.hidden) tick(); });

$('search').addEventListener('input', () => {
  board.words = $('search').value.toLowerCase().split(/\s+/).filter(Boolean);
  board.filter();
});
for (const b of document.querySelectorAll('[data-filter]')) {
  b.onclick = () => {
    board.tone = b.dataset.filter;
    for (const o of document.querySelectorAll('[data-filter]')) o.setAttribute('aria-pressed', String(o === b));
    board.filter();
  };
}
document.addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.key === '/' && !/^(INPUT|TEXTAREA)$/.test(e.target.tagName)) {
    e.preventDefault();
    $('search').focus();
  } else if (e.key === 'Escape' && e.target === $('search')) {
    $('search').value = '';
    $('search').dispatchEvent(new Event('input'));
  }
});

$('sign-in').addEventListener('submit', async (e) => {
  e.preventDefault();
  $('refused').textContent = await signIn($('token').value);
  if ($('refused').textContent) return $('token').select();
  $('token').value = '';
  $('sign-in').hidden = true;
  link.start();
});
$('out').onclick = async () => {
  link.stop();
  await signOut();
  link.start();
};

link.start();
