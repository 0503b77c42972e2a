// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// What the page knows, without a browser in it: messages go in, and what to say
// of a service now comes out. Instants are those of the clock that it is given,
// in milliseconds.

// Without a message for so long nothing is known any more; nor is it of what
// was observed that long ago.
export const STALE = 15000;

// What strips may span, in milliseconds.
const SPANS = [60e3, 5 * 60e3, 15 * 60e3];

const tones = { HEALTHY: 'good', UNHEALTHY: 'bad' };

// wordOf says a state in the words of the command line.
export function wordOf(state, check) {
  switch (state) {
    case 'HEALTHY': return check ? 'Ready' : 'Responsive';
    case 'UNHEALTHY': return check ? 'Not ready' : 'Unresponsive';
  }
  return 'Unknown';
}

export function toneOf(state) { return tones[state] ?? 'unsure'; }

const phases = { READY: 'good', ERROR: 'bad' };

export class Model {
  constructor(now) {
    this.now = now;
    this.services = new Map(); // by number
    this.sandboxes = new Map(); // by workspace and name
    this.next = null; // the full state, while it arrives
    this.heard = now(); // the latest message
    this.lost = true; // no message since the connection ended
    this.lostAt = now();
    this.listed = -Infinity;
    this.span = SPANS[0];
  }

  // began: a stream begins. It sends everything anew.
  began() { this.next = new Map(); this.heard = this.now(); }

  // ended: the stream is over, and with it what is known.
  ended() {
    this.next = null;
    if (!this.lost) { this.lost = true; this.lostAt = this.now(); }
  }

  // silent tells that the stream says nothing any more.
  silent() { return this.now() - this.heard >= STALE; }

  // due is the instant at which age alone will change what is known; Infinity:
  // it will not.
  due() {
    if (this.lost) return Infinity;
    let at = this.heard + STALE;
    for (const s of this.services.values()) {
      if (s.state !== 'UNKNOWN' && s.checked !== null && s.checked + STALE > this.now()) at = Math.min(at, s.checked + STALE);
    }
    return at;
  }

  // take takes a message in and returns the services that changed their state.
  take(m) {
    const now = this.heard = this.now();
    const into = this.next ?? this.services;
    const news = [];
    for (const n of m.removed ?? []) into.delete(n);
    for (const s of m.services ?? []) {
      const old = into.get(s.number);
      s.at = now;
      s.checked = s.age === undefined ? null : now - s.age;
      s.recorded = now - s.recorded;
      s.transitions = (s.transitions ?? []).map((t) => ({ ...t, at: now - t.at }));
      into.set(s.number, s);
      if (old && !this.next && (old.state !== s.state || old.check !== s.check)) news.push(s);
    }
    for (const [n, age] of m.ages ?? []) {
      const s = into.get(n);
      if (s) s.checked = now - age;
    }
    if (m.sandboxes) {
      this.listed = now;
      this.sandboxes = new Map(m.sandboxes.map((s) => [keyOf(s.workspace, s.name), s]));
    }
    if (m.complete && this.next) {
      this.services = this.next;
      this.next = null;
      this.lost = false;
    }
    return news;
  }

  // verdict says how a service is now.
  verdict(s) {
    if (this.lost) return verdict('UNKNOWN', s, 'ConnectionLost', 'this page has lost the gateway');
    if (s.state !== 'UNKNOWN' && (s.checked === null || this.now() - s.checked >= STALE)) {
      return verdict('UNKNOWN', s, 'Stale', 'the last check is older than 15 seconds');
    }
    return verdict(s.state, s, s.reason, s.message);
  }

  // age is how long ago a service was checked, in milliseconds; null: never.
  age(s) { return s.checked === null ? null : Math.max(0, this.now() - s.checked); }

  // groups lists the sandboxes and their services, sorted by name.
  groups() {
    const all = new Map();
    for (const [key, s] of this.sandboxes) {
      all.set(key, { key, workspace: s.workspace, name: s.name, phase: s.phase, message: s.message, services: [], listed: true });
    }
    for (const s of this.services.values()) {
      const key = keyOf(s.workspace, s.sandbox);
      let g = all.get(key);
      if (!g) all.set(key, g = { key, workspace: s.workspace, name: s.sandbox, message: '', services: [] });
      if (g.phase !== s.phase) g.message = ''; // of an older phase
      g.phase = s.phase; // the watch is quicker than the list
      g.services.push(s);
    }
    const list = [...all.values()].sort((a, b) => compare(a.key, b.key));
    for (const g of list) g.services.sort((a, b) => compare(a.name, b.name));
    return list;
  }

  // phase says how a sandbox is now.
  phase(g) {
    if (this.lost || !g.services.length && this.now() - this.listed >= STALE) return { word: 'Unknown', tone: 'unsure' };
    return { word: g.phase[0] + g.phase.slice(1).toLowerCase(), tone: phases[g.phase] ?? 'unsure' };
  }

  // measure chooses the span of all strips: the shortest that shows everything
  // recorded, or the longest.
  measure() {
    const now = this.now();
    let oldest = now;
    for (const s of this.services.values()) oldest = Math.min(oldest, s.transitions[0]?.at ?? now);
    this.span = SPANS.find((s) => now - oldest <= s) ?? SPANS.at(-1);
  }

  // past lists the stretches of a service's latest span: from, to, tone; times
  // before now in milliseconds.
  past(s, span) {
    const now = this.now();
    const out = [];
    const add = (from, to, tone) => {
      from = Math.min(now - from, span);
      to = Math.max(now - to, 0);
      const last = out.at(-1);
      if (from <= to) return;
      if (last && last.tone === tone) last.to = to; else out.push({ from, to, tone });
    };
    const end = this.lost ? this.lostAt : now;
    s.transitions.forEach((t, i) => {
      const until = Math.min(s.transitions[i + 1]?.at ?? end, end);
      add(t.at, until, toneOf(t.state));
    });
    if (this.lost) add(this.lostAt, now, 'unsure');
    else if (this.verdict(s).reason === 'Stale' && s.checked !== null) {
      add(Math.max(s.checked + STALE, s.transitions.at(-1)?.at ?? 0), now, 'unsure');
    }
    return out;
  }
}

function verdict(state, s, reason, message) {
  return { state, reason, message, word: wordOf(state, s.check), tone: toneOf(state) };
}

function compare(a, b) { return a < b ? -1 : a > b ? 1 : 0; }

// A space sorts before all that names are made of.
function keyOf(workspace, name) { return `${workspace} ${name}`; }

// matches tells whether a service is searched for: every word of the text is in
// what is shown of it.
export function matches(words, s, v) {
  const text = `${s.workspace} ${s.sandbox} ${s.name || '(unnamed)'} ${s.port} ${s.check ?? ''} ${v.word} ${v.reason} ${s.code ?? ''}`.toLowerCase();
  return words.every((w) => text.includes(w));
}

// spanText says a duration in words: "4 s", "3 min", "2 h".
export function spanText(ms) {
  const s = Math.floor(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}
