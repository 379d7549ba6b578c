// Self-attention on the circle and the sphere: SA and USA.

import { attention } from '../fields.js';
import { explore, uniformSphere, normalize, single, leaders, overlaps, matrix } from '../sim.js';

const KINDS = { softmax: 'softmax (SA)', unnormalized: 'unnormalized (USA)' };

const sphere = {
  title: 'Self-attention on the sphere',
  controls: [
    { id: 'attention', group: 'flow', label: 'attention', options: ['softmax', 'unnormalized'], names: KINDS, value: 'softmax' },
    { id: 'beta', group: 'flow', label: 'inverse temperature β', min: 0, max: 50, step: 0.5, value: 9 },
    { id: 'd', group: 'start', label: 'space', options: ['2', '3'], names: { 2: 'circle', 3: 'sphere' }, value: '3' },
    { id: 'n', group: 'start', label: 'tokens n', min: 2, max: 1000, log: true, whole: true, value: 300 },
    { id: 'seed', group: 'start', label: 'seed', min: 0, max: 99, step: 1, whole: true, value: 1 },
    { id: 'speed', group: 'time', label: 'time a second', min: 0.05, max: 20, log: true, value: 1, help: 'How much time of the model passes in a second.' },
  ],
  panels: [
    { id: 'energy', kind: 'line', title: 'Energy ∬ e^β(⟨x,y⟩−1)' },
    { id: 'clusters', kind: 'line', title: 'Clusters', step: true },
    { id: 'overlaps', kind: 'bars', title: 'Overlaps ⟨xᵢ, xⱼ⟩', range: [-1, 1] },
    { id: 'attention', kind: 'heat', title: 'Attention matrix' },
  ],
  fresh: ['n', 'd', 'seed'],

  start: ({ n, d }, random) => ({ y: uniformSphere(n, +d, random), d: +d }),
  rate: ({ beta, attention: kind }, state) => (_, y, out) => { state.energy = attention(y, y.length / state.d, state.d, beta, kind === 'softmax', out); },
  settle: (_, { y, d }) => normalize(y, d),

  seen({ beta }, { y, d, energy }) {
    const n = y.length / d, { label, count } = leaders(y, n, d);
    const order = [...Array(Math.min(n, 64)).keys()].map(i => Math.floor(i * n / Math.min(n, 64))).sort((i, j) => label[i] - label[j]);
    return {
      unit: 1, drag: true, x: single(y, d), label, energy, clusters: count, overlaps: overlaps(y, n, d),
      attention: matrix(y, d, order, s => Math.exp(beta * (s - 1))), info: { tokens: n, clusters: count },
      caption: `${n} tokens on the ${d === 2 ? 'circle' : 'sphere'} in ${count} clusters`,
    };
  },

  drag: (_, { y, d }, i, point) => y.set(point, d * i),
  add(p, state, point) {
    if (p.n < 1000) [state.y, p.n] = [Float64Array.from([...state.y, ...point]), p.n + 1];
  },
  remove(p, state, i) {
    if (p.n > 2) [state.y, p.n] = [state.y.filter((_, k) => Math.floor(k / state.d) !== i), p.n - 1];
  },
};

explore(document.querySelector('main'), sphere);
