// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import { newStrip, draw, newIcon, setIcon } from '/page/strip.js';
import { spanText, toneOf, wordOf } from '/page/model.js';

const still = matchMedia('(prefers-reduced-motion: reduce)');

// element makes an element with a class, text and children. Text is only ever
// text.
export function element(name, { className = '', text, ...rest } = {}, ...children) {
  const e = document.createElement(name);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  Object.assign(e, rest);
  e.append(...children);
  return e;
}

function setText(e, text) { if (e.textContent !== text) e.textContent = text; }

// Row is what is shown of one service.
export class Row {
  constructor(model, service) {
    this.model = model;
    this.icon = newIcon();
    this.word = element('span');
    this.state = element('div', { className: 'state' }, this.icon, this.word);
    this.link = element('a', { target: '_blank', rel: 'noopener noreferrer' });
    this.place = element('small');
    this.reason = element('span');
    this.message = element('small');
    this.age = element('div', { className: 'age' });
    this.strip = newStrip();
    this.more = element('button', { className: 'more', type: 'button', text: 'Details' });
    this.more.setAttribute('aria-expanded', 'false');
    this.more.onclick = () => this.toggle();
    this.node = element('li', {},
      element('div', { className: 'row' }, this.state,
        element('div', { className: 'name' }, this.link, this.place),
        element('div', { className: 'why' }, this.reason, this.message),
        this.age, this.strip, this.more));
    this.node.row = this;
    this.visible = false;
    this.set(service);
  }

  // set takes a service in, which is new or has changed.
  set(service) {
    this.service = service;
    const name = service.name || '(unnamed)';
    setText(this.link, name);
    if (/^https?:\/\//.test(service.url)) this.link.href = service.url;
    this.more.setAttribute('aria-label', `Details of ${service.sandbox} ${name}`);
    setText(this.place, `port ${service.port}${service.check ? `, ${service.check}` : ''}`);
    this.judge();
  }

  // judge shows the state as it is now, and tells whether it has changed.
  judge() {
    const v = this.model.verdict(this.service);
    const old = this.verdict;
    this.verdict = v;
    setText(this.reason, v.reason === 'OK' ? (this.service.code ? `OK ${this.service.code}` : 'OK') : v.reason);
    setText(this.message, v.message);
    if (old?.word === v.word && old.tone === v.tone) return false;
    setText(this.word, v.word);
    setIcon(this.icon, v.tone);
    this.state.className = `state ${v.tone}`;
    this.node.classList.toggle('is-bad', v.tone === 'bad');
    if (old && this.visible && !still.matches) this.state.animate({ opacity: [0.2, 1] }, 1200);
    return Boolean(old);
  }

  // tick shows what time alone changes.
  tick() {
    const age = this.model.age(this.service);
    setText(this.age, age === null ? '–' : `${spanText(age)}`);
  }

  // paint draws the strip.
  paint() {
    const span = this.model.span;
    const past = this.model.past(this.service, span);
    const changes = Math.max(past.length - 1, 0);
    const up = past.filter((p) => p.tone === 'good').reduce((sum, p) => sum + p.from - p.to, 0);
    const all = past.reduce((sum, p) => sum + p.from - p.to, 0);
    draw(this.strip, past, span, `Last ${spanText(Math.max(all, 0))}: up ${all > 0 ? Math.round(100 * up / all) : 0} % of the time, ${changes} ${changes === 1 ? 'change' : 'changes'}`);
    if (this.details) this.fill();
  }

  toggle() {
    if (this.details) {
      this.details.remove();
      this.details = null;
    } else {
      this.details = element('div', { className: 'details' });
      this.node.append(this.details);
      this.fill();
    }
    this.more.setAttribute('aria-expanded', String(Boolean(this.details)));
    setText(this.more, this.details ? 'Hide' : 'Details');
  }

  // fill shows the endpoint and the transitions, the newest first.
  fill() {
    const s = this.service;
    const key = `${s.at} ${s.transitions.length} ${this.verdict.reason}`;
    if (this.details.dataset.of === key) return;
    this.details.dataset.of = key;
    const facts = element('dl');
    const fact = (name, text) => facts.append(element('dt', { text: name }), element('dd', { text }));
    fact('URL', s.url);
    fact('Check', s.check ? `GET ${s.check} answers 2xx` : 'GET / answers anything');
    if (s.address) fact('Address', s.address);
    if (s.latency !== undefined) fact('Latency', `${s.latency} ms`);
    const body = element('tbody');
    const now = this.model.now();
    const time = new Intl.DateTimeFormat([], { dateStyle: 'short', timeStyle: 'medium' });
    for (const t of [...s.transitions].reverse()) {
      const at = element('time', { text: time.format(Date.now() - (now - t.at)) });
      body.append(element('tr', {}, element('td', {}, at),
        element('td', { className: toneOf(t.state), text: wordOf(t.state, s.check) }),
        element('td', { text: `${t.reason ?? ''}${t.code ? ` ${t.code}` : ''}` }),
        element('td', { text: causes[t.cause] ?? '' })));
    }
    const head = element('tr', {}, ...['When', 'State', 'Reason', 'Because'].map((text) => element('th', { text, scope: 'col' })));
    this.details.replaceChildren(facts, element('table', {},
      element('caption', { text: 'Latest transitions' }), element('thead', {}, head), body));
  }
}

const causes = {
  GATEWAY_STARTED: 'the gateway has started', CONFIGURATION: 'it was exposed, or changed', REPORT: 'the agent reported',
  SESSION: "the agent's session began or ended", LIFECYCLE: 'the sandbox was stopped or started', AGE: 'time has passed',
};
