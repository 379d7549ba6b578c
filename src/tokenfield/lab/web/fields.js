// Right-hand sides of the explorables, as pure functions in double precision. A test in a browser compares each with the library.

// ------------------------------------------------------------------------------------------------ tokens on the sphere
// SA and USA: out_i = P_i Σ_j e^{β<x_i, x_j>} x_j / Z_i, with Z_i the sum of the weights (softmax) or n (unnormalized, in units of
// e^{-β}, as `Unnormalized(scaled=True)`). x and out are rows of d numbers; every pair is computed once. Returns the energy's
// double sum, ΣΣ e^{β(<x_i, x_j> - 1)} / n².
export function attention(x, n, d, β, normalized, out) {
  const Z = new Float64Array(n).fill(1);
  out.set(x); // each token's own part: its weight is one
  if (d === 3) pairs3(x, n, β, out, Z); else pairs2(x, n, β, out, Z);
  let total = 0;
  for (let i = 0; i < n; i++) {
    total += Z[i];
    tangent(x, out, i, d, normalized ? 1 / Z[i] : 1 / n);
  }
  return total / (n * n);
}

function pairs3(x, n, β, out, Z) {
  for (let i = 0; i < n; i++) {
    const a = x[3 * i], b = x[3 * i + 1], c = x[3 * i + 2];
    let u = out[3 * i], v = out[3 * i + 1], w = out[3 * i + 2], z = Z[i];
    for (let j = i + 1, k = 3 * j; j < n; j++, k += 3) {
      const p = x[k], q = x[k + 1], r = x[k + 2], e = Math.exp(β * (a * p + b * q + c * r - 1));
      u += e * p; v += e * q; w += e * r; z += e;
      out[k] += e * a; out[k + 1] += e * b; out[k + 2] += e * c; Z[j] += e;
    }
    out[3 * i] = u; out[3 * i + 1] = v; out[3 * i + 2] = w; Z[i] = z;
  }
}

function pairs2(x, n, β, out, Z) {
  for (let i = 0; i < n; i++) {
    const a = x[2 * i], b = x[2 * i + 1];
    let u = out[2 * i], v = out[2 * i + 1], z = Z[i];
    for (let j = i + 1, k = 2 * j; j < n; j++, k += 2) {
      const p = x[k], q = x[k + 1], e = Math.exp(β * (a * p + b * q - 1));
      u += e * p; v += e * q; z += e;
      out[k] += e * a; out[k + 1] += e * b; Z[j] += e;
    }
    out[2 * i] = u; out[2 * i + 1] = v; Z[i] = z;
  }
}

// Row i times a scale, and of that the part along the sphere.
function tangent(x, out, i, d, scale) {
  let along = 0;
  for (let k = d * i; k < d * i + d; k++) along += (out[k] *= scale) * x[k];
  for (let k = d * i; k < d * i + d; k++) out[k] -= along * x[k];
}

// Causal softmax: token i hears itself and those before it.
export function causalAttention(x, n, d, β, out) {
  for (let i = 0; i < n; i++) {
    let Z = 1;
    const own = d * i;
    for (let k = 0; k < d; k++) out[own + k] = x[own + k];
    for (let j = 0; j < i; j++) {
      let s = 0;
      for (let k = 0; k < d; k++) s += x[own + k] * x[d * j + k];
      const e = Math.exp(β * (s - 1));
      Z += e;
      for (let k = 0; k < d; k++) out[own + k] += e * x[d * j + k];
    }
    tangent(x, out, i, d, 1 / Z);
  }
}

// Sequential parking: token j is a centre if its angle to every centre before it exceeds δ.
export function renyiCentres(x, n, d, δ) {
  const centres = [], bound = Math.cos(δ);
  for (let j = 0; j < n; j++) {
    const near = i => { let s = 0; for (let k = 0; k < d; k++) s += x[d * i + k] * x[d * j + k]; return s >= bound; };
    if (!centres.some(near)) centres.push(j);
  }
  return centres;
}

// ------------------------------------------------------------------------------------------------ equiangular tokens
// n tokens of common cosine ρ and radius r under softmax: the rates of both, [ρ̇, ṙ], for one normalization.
export function equiangular(scheme, t, ρ, r, { n, β, τ = 1, α = 1 }) {
  const e = Math.exp(β * (ρ - 1)), m = n - 1, Z = 1 + m * e;
  const c = (1 + m * e * ρ) / Z; // <θ_i, a_i>
  const b = (ρ + e * (1 + (n - 2) * ρ)) / Z; // <θ_j, a_i>
  const a = Math.sqrt(1 + m * e * e + 2 * m * e * ρ + m * (n - 2) * e * e * ρ) / Z; // |a_i|
  const [s, growth] = SCHEMES[scheme]({ t, r, a, c, τ, α });
  return [2 * (b - ρ * c) / s, growth];
}

// What divides the velocity, and how the radius grows.
const SCHEMES = {
  post_ln: () => [1, 0],
  pre_ln: ({ r, c }) => [r, c],
  peri_ln: ({ r, a, c }) => [r * a, c / a],
  mix_ln: ({ t, τ, r, c }) => (t <= τ ? [1, 0] : [r, c]),
  ngpt: ({ a, α }) => [a / α, 0],
  sqrt_scaling: ({ t }) => [Math.sqrt(t + 1), 0],
};

// ------------------------------------------------------------------------------------------------ Gaussians, d = 2
// Σ = (a, c; c, b) under softmax heads [V, A], matrices as rows [p, q, r, s]: Σ̇ = Σ_h V Σ A Σ + its transpose. Gives [ȧ, ḃ, ċ].
export function gaussian(heads, [a, b, c]) {
  const S = [a, c, c, b], rate = [0, 0, 0];
  for (const [V, A] of heads) {
    const M = times(times(times(V, S), A), S);
    rate[0] += 2 * M[0];
    rate[1] += 2 * M[3];
    rate[2] += M[1] + M[2];
  }
  return rate;
}
const times = ([a, b, c, d], [p, q, r, s]) => [a * p + b * r, a * q + b * s, c * p + d * r, c * q + d * s];

// ------------------------------------------------------------------------------------------------ noise on the circle
// USA in angles, in its own time: out_i = -(1/n) Σ_j e^{β cos(θ_i - θ_j)} sin(θ_i - θ_j). By Fourier modes of the measure:
// e^{β cos φ} = Σ_l I_l(β) e^{ilφ}, and the velocity is the slope of that potential over β; at β = 0 only the first mode is left.
export function noisyDrift(θ, β, out, modes = besselModes(β)) {
  const n = θ.length;
  out.fill(0);
  for (let l = 1; l < modes.length; l++) {
    let C = 0, S = 0;
    for (let i = 0; i < n; i++) { C += Math.cos(l * θ[i]); S += Math.sin(l * θ[i]); }
    const g = 2 * l * modes[l] / n;
    for (let i = 0; i < n; i++) out[i] += g * (S * Math.cos(l * θ[i]) - C * Math.sin(l * θ[i]));
  }
}

// I_l(β) / β for l = 0, 1, ... as far as they matter (l = 0 is not used); at β = 0 the limit, half of mode one.
export function besselModes(β) {
  const modes = [0];
  for (let l = 1; l < 200; l++) {
    let term = 0.5;
    for (let k = 2; k <= l; k++) term *= β / (2 * k);
    let sum = term;
    for (let k = 1; k < 200 && term > 1e-18 * sum; k++) sum += (term *= (β * β / 4) / (k * (k + l)));
    if (l > 1 && sum < 1e-14 * modes[1]) break;
    modes.push(sum);
  }
  return modes;
}

// The stationary density at noise κ on a grid of the circle, symmetric about angle 0, by iterating μ ∝ exp(κ K*μ); and R = |mean|.
export function stationary(β, κ, cells = 256, rounds = 4000) {
  const modes = besselModes(β), angle = i => 2 * Math.PI * i / cells;
  let a = modes.map(() => 1), μ = new Float64Array(cells);
  for (let round = 0; round < rounds; round++) {
    const potential = i => { let s = 0; for (let l = 1; l < modes.length; l++) s += 2 * modes[l] * a[l] * Math.cos(l * angle(i)); return κ * s; };
    const top = potential(0);
    let mass = 0;
    for (let i = 0; i < cells; i++) mass += (μ[i] = Math.exp(potential(i) - top));
    const next = modes.map((_, l) => μ.reduce((s, v, i) => s + v * Math.cos(l * angle(i)), 0) / mass);
    const moved = Math.max(...next.map((v, l) => Math.abs(v - a[l])));
    a = next;
    if (moved < 1e-12) break;
  }
  const mass = μ.reduce((s, v) => s + v, 0) * 2 * Math.PI / cells;
  return { density: μ.map(v => v / mass), R: Math.abs(a[1]) };
}

// Where the uniform state gives way: κ_c = min over l of β / I_l(β).
export const threshold = β => Math.min(...besselModes(β).slice(1).map(mode => 1 / mode));
