// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// The strip of a service's latest transitions. Height tells the states apart,
// not colour alone: a high bar is down, a middle one is up, a line is unknown.

const NS = 'http://www.w3.org/2000/svg';
const bars = { good: [14, 10], bad: [0, 24], unsure: [21, 3] }; // y, height

export function newStrip() {
  const svg = document.createElementNS(NS, 'svg');
  svg.setAttribute('class', 'strip');
  svg.setAttribute('role', 'img');
  svg.setAttribute('viewBox', '0 0 900 24');
  svg.setAttribute('preserveAspectRatio', 'none');
  return svg;
}

// draw shows stretches of a span as model.past lists them.
export function draw(svg, stretches, span, label) {
  const x = (before) => 900 * (1 - before / span);
  stretches.forEach((s, i) => {
    const r = svg.children[i] ?? svg.appendChild(document.createElementNS(NS, 'rect'));
    const [y, height] = bars[s.tone];
    r.setAttribute('class', s.tone);
    r.setAttribute('x', x(s.from).toFixed(1));
    r.setAttribute('width', Math.max(x(s.to) - x(s.from), 2).toFixed(1)); // a short one is seen too
    r.setAttribute('y', y);
    r.setAttribute('height', height);
  });
  while (svg.children.length > stretches.length) svg.lastChild.remove();
  svg.setAttribute('aria-label', label);
}

const icons = {
  good: 'M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1Zm3.6 4.6L7.2 10.9 4.4 8.3l1-1.1 1.7 1.6 3.4-4.1Z',
  bad: 'M8 1 15.5 14.5H.5ZM7.2 6v4.4h1.6V6Zm0 5.6v1.6h1.6v-1.6Z',
  unsure: 'M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1Zm0 1.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11Zm-.8 8.2v1.6h1.6v-1.6Zm0-1v-.9c0-1.4 1.6-1.5 1.6-2.6 0-.5-.3-.8-.8-.8s-.9.3-1 .9l-1.4-.3C5.8 4.8 6.8 4 8.1 4c1.4 0 2.3.8 2.3 2 0 1.700-1.600 1.800-1.600 3v.7Z',
};

// newIcon returns the picture that stands beside a word.
export function newIcon() {
  const svg = document.createElementNS(NS, 'svg');
  svg.setAttribute('viewBox', '0 0 16 16');
  svg.setAttribute('aria-hidden', 'true');
  const p = svg.appendChild(document.createElementNS(NS, 'path'));
  p.setAttribute('fill', 'currentColor');
  p.setAttribute('fill-rule', 'evenodd');
  return svg;
}

export function setIcon(svg, tone) {
  if (svg.dataset.tone === tone) return;
  svg.dataset.tone = tone;
  svg.firstChild.setAttribute('d', icons[tone]);
}
