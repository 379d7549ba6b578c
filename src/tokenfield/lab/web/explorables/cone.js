// Gaussians: covariances of trace one in the cone of all covariances, moved by linear heads.

import { gaussian } from '../fields.js';
import { explore, single, curve } from '../sim.js';

const J = [0, 1, -1, 0], ONE = [1, 0, 0, 1], PLANE = [[[-1, 0, 0, 0], [0, 0, 0, 1]], [[0, 0, 0, -1], [1, 0, 0, 0]]];
const FATES = { zero: 'to zero', line: 'to a line', plane: 'to a plane', lines: 'to two lines', grow: 'to infinity' };
const turned = angle => { const [c, s] = [Math.cos(angle), Math.sin(angle)]; return [-c * c, -c * s, -c * s, -s * s]; };
const HEADS = {
  zero: () => [[[1, 0.2, 0.2, 0.6], [-0.7, 0.8, -0.8, -0.4]]],
  line: ({ angle }) => [[ONE, turned(angle * Math.PI / 180)]],
  plane: () => PLANE,
  lines: () => [...PLANE, [J.map(v => v / 2), J]],
  grow: ({ angle }) => [[ONE, turned(angle * Math.PI / 180).map(v => -v / 4)]],
};

// Rings of covariances of trace one around half the identity; the outermost have rank one.
function rings(count) {
  const out = [[0.5, 0.5, 0]];
  for (let k = 1; k <= count; k++) for (let i = 0; i < 6 * k; i++) {
    const φ = 2 * Math.PI * i / (6 * k), r = k / count;
    out.push([0.5 * (1 + r * Math.cos(φ)), 0.5 * (1 - r * Math.cos(φ)), 0.5 * r * Math.sin(φ)]);
  }
  return out;
}

const inCone = (a, b, c) => [a - b, 2 * c, a + b];
const round = (z, r = z) => curve(Array.from({ length: 65 }, (_, i) => [r * Math.cos(i * Math.PI / 32), r * Math.sin(i * Math.PI / 32), z]));
const edge = (high, φ) => curve([[0, 0, 0], [high * Math.cos(φ), high * Math.sin(φ), high]]);
const shell = high => [...[0.25, 0.5, 0.75, 1].map(part => round(part * high)), ...Array.from({ length: 12 }, (_, i) => edge(high, i * Math.PI / 6))];
const ellipse = (a, b, c) => { // the square root of the covariance, applied to a circle
  const s = Math.sqrt(Math.max(0, a * b - c * c)), t = Math.sqrt(a + b + 2 * s) || 1;
  const at = (u, v) => [((a + s) * u + c * v) / t, (c * u + (b + s) * v) / t];
  return curve(Array.from({ length: 49 }, (_, i) => at(Math.cos(i * Math.PI / 24), Math.sin(i * Math.PI / 24))));
};

const cone = {
  title: 'Gaussians in the cone',
  log: true,
  controls: [
    { id: 'fate', group: 'flow', label: 'heads', options: Object.keys(FATES), names: FATES, value: 'line' },
    { id: 'angle', group: 'flow', label: 'direction u, degrees', min: 0, max: 180, step: 1, whole: true, value: 150, when: { fate: ['line', 'grow'] } },
    { id: 'rings', group: 'start', label: 'rings of covariances', min: 1, max: 8, step: 1, whole: true, value: 4 },
    { id: 'view', group: 'view', label: 'seen as', options: ['cone', 'ellipses'], value: 'cone' },
    { id: 'speed', group: 'time', label: 'e-folds of time a second', min: 0.1, max: 5, log: true, value: 1.5 },
  ],
  panels: [
    { id: 'trace', kind: 'line', title: 'log₁₀ tr Σ, largest and least', names: ['largest', 'least'] },
    { id: 'det', kind: 'line', title: 'Middle one: eigenvalues of Σ', names: ['large', 'small'] },
    { id: 'ranks', kind: 'bars', title: 'Share of the smaller eigenvalue', range: [0, 0.5] },
  ],
  fresh: ['fate', 'angle', 'rings', 'view'],

  start: ({ rings: count }) => ({ y: Float64Array.from(rings(count).flat()) }),
  rate: p => {
    const heads = HEADS[p.fate](p);
    return (_, y, out) => { for (let i = 0; i < y.length; i += 3) out.set(gaussian(heads, [y[i], y[i + 1], y[i + 2]]), i); };
  },
  over(_, { y }, t) {
    if (Math.max(...y) > 50) return 'A covariance has blown up in finite time, as the closed form predicts.';
    return t > 1e5 ? 'A hundred thousand units of time have passed.' : null;
  },

  seen(p, { y }) {
    const all = Array.from({ length: y.length / 3 }, (_, i) => [y[3 * i], y[3 * i + 1], y[3 * i + 2]]), traces = all.map(([a, b]) => a + b);
    const eigen = all.map(([a, b, c]) => { const h = Math.hypot((a - b) / 2, c); return [(a + b) / 2 + h, Math.max(0, (a + b) / 2 - h)]; });
    const ranks = new Float32Array(25);
    eigen.forEach(([u, v]) => { ranks[Math.min(24, Math.floor(50 * v / (u + v || 1)))]++; });
    const high = Math.max(1, ...traces);
    const flat = p.view === 'ellipses', lines = flat ? all.map(s => ellipse(...s)) : shell(high);
    return {
      unit: 0, scaffold: flat, reach: flat ? Math.sqrt(high) : 1.05 * high, centre: flat ? [0, 0, 0] : [0, 0, 0.5 * high],
      x: flat ? single([0, 0], 2) : single(all.map(s => inCone(...s)).flat(), 3),
      label: flat ? Uint8Array.of(255) : Uint8Array.from(all, (_, i) => ringOf(i) % 8),
      ...Object.fromEntries(lines.map((line, i) => [`curve${i}`, line])), curves: lines.map(() => (flat ? 'accent' : 'dim')),
      trace: [Math.log10(Math.max(...traces)), Math.log10(Math.max(1e-12, Math.min(...traces)))], det: eigen[0], ranks,
      info: { Gaussians: all.length },
      caption: `${all.length} covariances in the cone, the largest of trace ${Math.max(...traces).toPrecision(3)}`,
    };
  },
};
const ringOf = i => Math.ceil((Math.sqrt(9 + 12 * i) - 3) / 6);

explore(document.querySelector('main'), cone);
