// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import { element, Row } from '/page/row.js';
import { matches } from '/page/model.js';
import { newIcon, setIcon } from '/page/strip.js';

// Board is the list of sandboxes and services. Nodes stay what they are while
// what they show is there, so that focus and reading position stay too.
export class Board {
  constructor(model, root, nothing) {
    this.model = model;
    this.root = root;
    this.nothing = nothing;
    this.rows = new Map(); // by service number
    this.sections = new Map(); // by group key
    this.words = [];
    this.tone = 'all';
    // Off screen a row is kept right in its state, and not in age and strip.
    this.seen = new IntersectionObserver((entries) => {
      for (const e of entries) {
        const row = e.target.row;
        row.visible = e.isIntersecting;
        if (row.visible) { row.tick(); row.paint(); }
      }
    }, { rootMargin: '200px' });
    root.addEventListener('keydown', (e) => this.move(e));
  }

  // rebuild shows which sandboxes and services there are.
  rebuild() {
    this.model.measure();
    const { services } = this.model;
    for (const [n, row] of this.rows) {
      if (services.get(n) === undefined) {
        this.seen.unobserve(row.node);
        row.node.remove();
        this.rows.delete(n);
      }
    }
    const groups = this.model.groups();
    const keys = new Set(groups.map((g) => g.key));
    for (const [key, s] of this.sections) {
      if (!keys.has(key)) { s.node.remove(); this.sections.delete(key); }
    }
    let at = this.root.firstChild;
    for (const g of groups) {
      let s = this.sections.get(g.key);
      if (!s) this.sections.set(g.key, s = newSection(g));
      s.group = g;
      at = place(this.root, s.node, at);
      let below = s.list.firstChild;
      for (const service of g.services) {
        let row = this.rows.get(service.number);
        if (!row) {
          this.rows.set(service.number, row = new Row(this.model, service));
          this.seen.observe(row.node);
        } else if (row.service !== service) {
          row.set(service);
          if (row.visible) { row.tick(); row.paint(); }
        }
        below = place(s.list, row.node, below);
      }
    }
    this.judge();
  }

  // judge shows the states as they are now.
  judge() {
    let changed = false;
    for (const row of this.rows.values()) changed = row.judge() || changed;
    for (const s of this.sections.values()) {
      const p = this.model.phase(s.group);
      setIcon(s.icon, p.tone);
      s.icon.setAttribute('class', p.tone);
      s.phase.className = `phase ${p.tone}`;
      const text = s.group.message && p.word !== 'Unknown' && p.word !== 'Ready' ? `${p.word}: ${s.group.message}` : p.word;
      if (s.phase.textContent !== text) s.phase.textContent = text;
    }
    this.filter();
    return changed;
  }

  // filter hides what is not asked for.
  filter() {
    let shown = 0;
    for (const s of this.sections.values()) {
      const g = s.group;
      let some = 0;
      for (const service of g.services) {
        const row = this.rows.get(service.number);
        const ok = (this.tone === 'all' || row.verdict.tone === this.tone) && matches(this.words, service, row.verdict);
        if (row.node.hidden === ok) row.node.hidden = !ok;
        if (ok) some++;
      }
      const text = `${g.workspace} ${g.name} ${s.phase.textContent}`.toLowerCase();
      const bare = !g.services.length && this.tone === 'all' && this.words.every((w) => text.includes(w));
      if (s.node.hidden === Boolean(some || bare)) s.node.hidden = !(some || bare);
      shown += some + (bare ? 1 : 0);
    }
    this.nothing.hidden = shown > 0;
    const empty = this.sections.size ? 'Nothing matches the search and the filter.' : 'There are no sandboxes yet.';
    if (!shown && this.nothing.textContent !== empty) this.nothing.textContent = empty;
  }

  tick() { for (const row of this.rows.values()) if (row.visible) row.tick(); }
  paint() {
    this.model.measure();
    for (const row of this.rows.values()) if (row.visible) row.paint();
  }

  counts() {
    const n = { all: this.rows.size, good: 0, bad: 0, unsure: 0 };
    for (const row of this.rows.values()) n[row.verdict.tone]++;
    return n;
  }

  // move goes from service to service with the arrow keys.
  move(e) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (!step || !e.target.matches('.more')) return;
    const all = [...this.root.querySelectorAll('section:not([hidden]) li:not([hidden]) .more')];
    const to = all[all.indexOf(e.target) + step];
    if (!to) return;
    e.preventDefault();
    to.focus();
  }
}

function newSection(g) {
  const icon = newIcon();
  const phase = element('span', { className: 'phase' });
  const title = element('span', { text: g.name });
  const heading = element('h2', {}, title, element('span', { className: 'of', text: g.workspace === 'default' ? '' : `in ${g.workspace}` }), icon, phase);
  const list = element('ul', { role: 'list' });
  const node = element('section', {}, heading, list);
  node.setAttribute('aria-label', `Sandbox ${g.name}`);
  return { node, list, icon, phase, group: g };
}

// place puts a node where at is, unless it is there, and returns what follows.
function place(parent, node, at) {
  if (node === at) return at.nextSibling;
  parent.insertBefore(node, at);
  return at;
}
