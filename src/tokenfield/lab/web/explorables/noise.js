// Noise against attention on the circle: below a threshold nothing gathers, and above it the density is predicted.

import { noisyDrift, besselModes, stationary, threshold } from '../fields.js';
import { explore, single, curve } from '../sim.js';

const CELLS = 96;

// The predicted density as a curve around the circle, turned to where the tokens are.
function ringed(density, turn) {
  const m = density.length, top = Math.max(1, Math.max(...density));
  const at = (φ, r) => [r * Math.cos(φ), r * Math.sin(φ)];
  return curve(Array.from({ length: m + 1 }, (_, i) => at(turn + 2 * Math.PI * i / m, 1.07 + 0.33 * density[i % m] / top)));
}

function mean(θ) {
  let [C, S] = [0, 0];
  for (const angle of θ) { C += Math.cos(angle); S += Math.sin(angle); }
  return [Math.hypot(C, S) / θ.length, Math.atan2(S, C)];
}

function histogram(θ, turn) {
  const bins = new Float32Array(36);
  for (const angle of θ) {
    const u = (angle - turn) / (2 * Math.PI) + 0.5;
    bins[Math.floor((u - Math.floor(u)) * 36) % 36] += 36 / θ.length / (2 * Math.PI);
  }
  return bins;
}

const noise = {
  title: 'Noise against attention',
  controls: [
    { id: 'kappa', group: 'flow', label: 'κ: noise is √(2/κ) dW', min: 0.2, max: 20, log: true, value: 4 },
    { id: 'beta', group: 'flow', label: 'inverse temperature β', min: 0, max: 4, step: 0.1, value: 0 },
    { id: 'n', group: 'start', label: 'tokens n', min: 50, max: 1000, log: true, whole: true, value: 600 },
    { id: 'seed', group: 'start', label: 'seed', min: 0, max: 99, step: 1, whole: true, value: 1 },
    { id: 'speed', group: 'time', label: 'time a second', min: 0.1, max: 10, log: true, value: 2 },
  ],
  panels: [
    { id: 'order', kind: 'line', title: 'Order R = |mean|', names: ['tokens', 'predicted'] },
    { id: 'density', kind: 'bars', title: 'Density about the mean direction', range: [-Math.PI, Math.PI] },
  ],
  fresh: ['n', 'seed'],

  start: ({ n }, random) => ({ y: Float64Array.from({ length: n }, () => 2 * Math.PI * random.uniform()) }),
  rate({ beta, kappa }, state) {
    const modes = besselModes(beta);
    Object.assign(state, { predicted: stationary(beta, kappa, CELLS), least: threshold(beta) });
    return (_, y, out) => noisyDrift(y, beta, out, modes);
  },
  longest: ({ beta, kappa }) => Math.min(0.05, 0.2 / Math.exp(beta), 0.02 * kappa),
  kick({ kappa }, { y }, dt, random) {
    for (let i = 0; i < y.length; i++) y[i] += Math.sqrt(2 * dt / kappa) * random.normal();
    return true;
  },

  seen({ kappa }, { y, predicted, least }) {
    const [R, turn] = mean(y);
    return {
      unit: 1, reach: 1.25, x: single([...y].flatMap(θ => [Math.cos(θ), Math.sin(θ)]), 2), label: new Uint8Array(y.length),
      curve0: ringed(predicted.density, turn), curves: ['accent'],
      order: [R, predicted.R], density: histogram(y, turn),
      info: { tokens: y.length, R: R.toFixed(3), predicted: predicted.R.toFixed(3), 'threshold κ': least.toFixed(3) },
      caption: `${y.length} tokens on the circle, order ${R.toFixed(2)}, predicted ${predicted.R.toFixed(2)}; κ is ${kappa < least ? 'below' : 'above'} the threshold`,
    };
  },
};

explore(document.querySelector('main'), noise);
