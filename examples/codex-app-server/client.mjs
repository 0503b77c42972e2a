// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Says hello to a Codex app-server: node client.mjs URL
import dns from 'node:dns';
import WebSocket from 'ws';

// Browsers take every name below localhost for this machine; a resolver may not.
const lookup = (name, options, done) => dns.lookup(name.endsWith('.localhost') ? 'localhost' : name, options, done);
const socket = new WebSocket(process.argv[2], { lookup });

// JSON-RPC over the socket: a call has an id, and so has its answer.
const calls = new Map();
const send = (message) => socket.send(JSON.stringify(message));
const call = (method, params) => new Promise((resolve, reject) => {
  const id = calls.size + 1;
  calls.set(id, { resolve, reject });
  send({ id, method, params });
});
socket.on('message', (data) => {
  const { id, result, error } = JSON.parse(data);
  const waiting = calls.get(id);
  if (error) waiting?.reject(new Error(error.message));
  else waiting?.resolve(result);
});

await new Promise((resolve, reject) => socket.on('open', resolve).on('error', reject));
const hello = await call('initialize', { clientInfo: { name: 'example', title: 'Example', version: '1.0.0' } });
send({ method: 'initialized' });
console.log(hello.userAgent);
const { data } = await call('thread/loaded/list', {});
console.log(`${data.length} threads are loaded`);
socket.close();
