// Equiangular tokens: one angle tells all, so that six normalizations race side by side.

import { equiangular } from '../fields.js';
import { explore, single, curve } from '../sim.js';

const RACERS = { post_ln: 'Post-LN', pre_ln: 'Pre-LN', peri_ln: 'Peri-LN', mix_ln: 'Mix-LN', ngpt: 'nGPT', sqrt_scaling: 'sqrt-scaling' };
const NAMES = Object.values(RACERS), KEYS = Object.keys(RACERS);

const race = {
  title: 'How fast tokens come together',
  log: true,
  controls: [
    { id: 'beta', group: 'flow', label: 'inverse temperature β', min: 0, max: 20, step: 0.25, value: 4 },
    { id: 'tau', group: 'flow', label: 'Mix-LN: switch at τ', min: 0.1, max: 100, log: true, value: 10 },
    { id: 'alpha', group: 'flow', label: 'nGPT: step α', min: 0.05, max: 2, log: true, value: 1 },
    { id: 'n', group: 'start', label: 'tokens n', min: 2, max: 1000, log: true, whole: true, value: 32 },
    { id: 'rho', group: 'start', label: 'cosine ρ at the start', min: 0, max: 0.95, step: 0.01, value: 0 },
    { id: 'r', group: 'start', label: 'radius at the start', min: 0.2, max: 5, log: true, value: 1 },
    { id: 'speed', group: 'time', label: 'e-folds of time a second', min: 0.1, max: 5, log: true, value: 1.5 },
  ],
  panels: [
    { id: 'rho', kind: 'line', title: 'Common cosine ρ', names: NAMES },
    { id: 'gap', kind: 'line', title: 'log₁₀(1 − ρ)', names: NAMES },
    { id: 'radius', kind: 'line', title: 'log₁₀ of the radius', names: NAMES },
  ],
  fresh: ['n', 'rho', 'r', 'beta', 'tau', 'alpha'],

  // The state is log(1 - ρ), which stays exact when ρ is nearly 1, and log r.
  start: ({ rho, r }) => ({ y: Float64Array.from(KEYS.flatMap(() => [Math.log(1 - rho), Math.log(r)])) }),
  rate: ({ n, beta, tau, alpha }) => (t, y, out) => KEYS.forEach((scheme, k) => {
    const gap = Math.exp(y[2 * k]), r = Math.exp(y[2 * k + 1]);
    if (gap < 1e-13) return out.fill(0, 2 * k, 2 * k + 2);
    const [dρ, dr] = equiangular(scheme, t, 1 - gap, r, { n, β: beta, τ: tau, α: alpha });
    out[2 * k] = -dρ / gap;
    out[2 * k + 1] = dr / r;
  }),
  over: (_, __, t) => (t > 1e6 ? 'A million units of time have passed.' : null),

  seen(_, { y }) {
    const gaps = KEYS.map((_, k) => Math.exp(y[2 * k])), angles = gaps.map(gap => Math.acos(Math.max(-1, 1 - gap)));
    const points = angles.map((angle, k) => [Math.cos(angle) * (1 + 0.05 * (k - 2.5)), Math.sin(angle) * (1 + 0.05 * (k - 2.5))]);
    const arc = Array.from({ length: 49 }, (_, i) => [Math.cos(i * Math.PI / 48), Math.sin(i * Math.PI / 48)]);
    const lines = [curve(arc), curve([[0, 0], [1, 0]]), ...points.map(point => curve([[0, 0], point]))];
    return {
      unit: 0, reach: 1.05, scaffold: false, centre: [0.05, 0.4, 0], x: single([1, 0, ...points.flat()], 2), label: Uint8Array.from([255, 0, 1, 2, 3, 4, 5]),
      ...Object.fromEntries(lines.map((line, k) => [`curve${k}`, line])), curves: ['dim', 'dim', 0, 1, 2, 3, 4, 5],
      rho: gaps.map(gap => 1 - gap), gap: gaps.map(gap => Math.max(-13, Math.log10(gap))), radius: KEYS.map((_, k) => y[2 * k + 1] / Math.LN10),
      info: Object.fromEntries(NAMES.map((name, k) => [name, `ρ = ${(1 - gaps[k]).toFixed(5)}`])),
      caption: `Angles between tokens: ${NAMES.map((name, k) => `${name} ${Math.round(angles[k] * 180 / Math.PI)} degrees`).join(', ')}`,
    };
  },
};

explore(document.querySelector('main'), race);
