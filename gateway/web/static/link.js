// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// The connection to the gateway. It connects again by itself, for ever, unless
// the viewer has to sign in.

const FIRST_DELAY = 500;
const LAST_DELAY = 5000;

export class Link {
  // on: { open, message, problem, lost, signIn }
  constructor(on) {
    this.on = on;
    this.delay = FIRST_DELAY;
  }

  async start() {
    clearTimeout(this.timer);
    const session = await fetchSession();
    if (session === null) return this.again();
    if (!session.signed_in) return this.on.signIn();
    this.session = session;
    const stream = this.stream = new EventSource('/page/events');
    stream.onopen = () => this.on.open(session);
    stream.onmessage = (e) => {
      this.delay = FIRST_DELAY;
      this.on.message(JSON.parse(e.data));
    };
    stream.addEventListener('problem', (e) => {
      this.on.problem(JSON.parse(e.data).text);
    });
    stream.onerror = () => this.restart();
  }

  // restart gives the connection up and makes another.
  restart() {
    this.stream?.close();
    this.stream = null;
    this.on.lost();
    this.again();
  }

  again() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.start(), this.delay * (0.5 + Math.random() / 2));
    this.delay = Math.min(this.delay * 2, LAST_DELAY);
  }

  stop() {
    clearTimeout(this.timer);
    this.stream?.close();
    this.stream = null;
  }
}

// fetchSession returns who we are to the gateway; null: it does not answer.
async function fetchSession() {
  try {
    const r = await fetch('/page/session', { signal: AbortSignal.timeout(10000) });
    return r.ok || r.status === 401 ? await r.json() : null;
  } catch {
    return null;
  }
}

// signIn exchanges the token for a cookie; it returns what was wrong.
export async function signIn(token) {
  try {
    const r = await fetch('/page/session', {
      method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ token }),
      signal: AbortSignal.timeout(10000),
    });
    return r.ok ? '' : 'This is not the admin token of this gateway.';
  } catch {
    return 'The gateway does not answer.';
  }
}

export function signOut() { return fetch('/page/session', { method: 'DELETE' }).catch(() => {}); }
