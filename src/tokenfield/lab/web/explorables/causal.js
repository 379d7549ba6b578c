// Causal attention on the circle and the sphere: Rényi centres.

import { clamp } from '../dom.js';
import { causalAttention, renyiCentres } from '../fields.js';
import { explore, uniformSphere, normalize, single, curve, matrix, inner } from '../sim.js';

const width = beta => Math.min(Math.PI, 4 / Math.sqrt(Math.max(beta, 1e-9)));

// Each token belongs to the centre it is nearest to now; 255 where none is within a kernel's width.
function gathered(y, n, d, centres, beta) {
  const label = new Uint8Array(n).fill(255), bound = Math.cos(Math.min(Math.PI, width(beta) / 4));
  for (let i = 0; i < n; i++) {
    let best = bound;
    centres.forEach((c, k) => { const s = inner(y, d, i, c); if (s >= best) [best, label[i]] = [s, k % 8]; });
  }
  return label;
}

// Rings of the kernel's width around the centres, where they are now.
function halos(y, d, centres, beta) {
  const ρ = width(beta) / 4;
  return centres.map(c => {
    if (d === 2) return arc(Math.atan2(y[2 * c + 1], y[2 * c]), ρ);
    const x = [y[3 * c], y[3 * c + 1], y[3 * c + 2]], k = Math.abs(x[0]) < 0.8 ? [1, 0, 0] : [0, 1, 0];
    const u = unit(cross3(x, k)), v = cross3(x, u), [cos, sin] = [1.002 * Math.cos(ρ), 1.002 * Math.sin(ρ)];
    const at = φ => x.map((value, q) => cos * value + sin * (Math.cos(φ) * u[q] + Math.sin(φ) * v[q]));
    return curve(Array.from({ length: 41 }, (_, i) => at(i * Math.PI / 20)));
  });
}
const arc = (φ, ρ) => curve(Array.from({ length: 17 }, (_, i) => [1.07 * Math.cos(φ + ρ * (i / 8 - 1)), 1.07 * Math.sin(φ + ρ * (i / 8 - 1))]));
const cross3 = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const unit = a => { const r = Math.hypot(...a); return a.map(v => v / r); };

const causal = {
  title: 'Causal attention',
  log: true,
  controls: [
    { id: 'beta', group: 'flow', label: 'inverse temperature β', min: 2, max: 200, log: true, value: 64 },
    { id: 'd', group: 'start', label: 'space', options: ['2', '3'], names: { 2: 'circle', 3: 'sphere' }, value: '2' },
    { id: 'n', group: 'start', label: 'tokens n', min: 2, max: 600, log: true, whole: true, value: 200 },
    { id: 'seed', group: 'start', label: 'seed', min: 0, max: 99, step: 1, whole: true, value: 3 },
    { id: 'speed', group: 'time', label: 'e-folds of time a second', min: 0.1, max: 5, log: true, value: 1.2 },
  ],
  panels: [
    { id: 'share', kind: 'line', title: 'Share of tokens at a centre' },
    { id: 'moved', kind: 'line', title: 'How far centres have gone, in units of δ' },
    { id: 'attention', kind: 'heat', title: 'Attention matrix, tokens in their order' },
  ],
  fresh: ['n', 'd', 'seed', 'beta'],

  start({ n, d, beta }, random) {
    const y = uniformSphere(n, +d, random), centres = renyiCentres(y, n, +d, width(beta));
    return { y, d: +d, centres, home: y.slice() };
  },
  rate: ({ beta }, { d }) => (_, y, out) => causalAttention(y, y.length / d, d, beta, out),
  settle: (_, { y, d }) => normalize(y, d),
  over: (_, __, t) => (t > 1e4 ? 'Ten thousand units of time have passed.' : null),

  seen({ beta }, { y, d, centres, home }) {
    const n = y.length / d, label = gathered(y, n, d, centres, beta), share = label.filter(k => k !== 255).length / n;
    const both = Float64Array.from([...y, ...home]), gone = c => Math.acos(clamp(inner(both, d, c, n + c), -1, 1));
    const moved = Math.max(...centres.map(gone)) / width(beta);
    const lines = halos(y, d, centres, beta), order = [...Array(Math.min(n, 64)).keys()].map(i => Math.floor(i * n / Math.min(n, 64)));
    return {
      unit: 1, reach: 1.1, drag: true, x: single(y, d), label,
      size: Float32Array.from({ length: n }, (_, i) => (centres.includes(i) ? 2.2 : 0.9)),
      ...Object.fromEntries(lines.map((line, i) => [`curve${i}`, line])), curves: lines.map((_, k) => k % 8),
      share, moved, attention: matrix(y, d, order, (s, i, j) => (j <= i ? Math.exp(beta * (s - 1)) : 0)),
      info: { tokens: n, centres: centres.length, 'at a centre': `${Math.round(100 * share)} %` },
      caption: `${n} tokens, ${Math.round(100 * share)} percent of them at one of ${centres.length} centres`,
    };
  },
  drag: (_, { y, d }, i, point) => y.set(point, d * i),
};

explore(document.querySelector('main'), causal);
