// A laboratory in this tab alone: explore(root, model) runs the model and answers the front end as a server would.
//   model: {title, controls, panels, shown, fresh: ids that begin anew, log: whether time is logarithmic,
//           start(p, random) -> state with y, rate(p, state) -> (t, y, out), seen(p, state, t) -> what a frame shows,
//           and where it applies: settle(p, state), kick(p, state, dt, random), longest(p), drag, add, remove}

import { mount, settle } from './lab.js';
import { shaped } from './wire.js';
import { short } from './dom.js';

const BUDGET = 25; // milliseconds that a frame may compute
const TOLERANCE = 1e-6;

export function explore(root, model) {
  const p = { ...Object.fromEntries(model.controls.map(c => [c.id, c.value])), ...known(model, wanted()) };
  const run = { p, model, play: true, seq: 0, due: false, then: performance.now() };
  const ui = { frame() {}, told() {} };
  const send = message => { for (const [kind, value] of Object.entries(message)) ANSWERS[kind]?.(run, value, ui); };
  root.addEventListener('link', event => history.replaceState(null, '', `#${encodeURIComponent(JSON.stringify(event.detail))}`));
  begin(run);
  Object.assign(ui, mount(root, { title: model.title, controls: model.controls, panels: model.panels, shown: model.shown, p, record: false }, send));
  window.laboratory = ui;
  settle(send, ui.told);
  later(run, ui);
  return ui;
}

function wanted() {
  try { return JSON.parse(decodeURIComponent(location.hash.slice(1) || '{}')); } catch { return {}; }
}

// Of what was asked for, that which the controls allow.
function known(model, values) {
  const fits = c => (c.options ? c.options.includes(values[c.id]) : c.switch ? typeof values[c.id] === 'boolean' : values[c.id] >= c.min && values[c.id] <= c.max);
  return Object.fromEntries(model.controls.filter(c => values?.[c.id] !== undefined && fits(c)).map(c => [c.id, values[c.id]]));
}

// ------------------------------------------------------------------------------------------------ messages
const ANSWERS = {
  set(run, values, ui) {
    Object.assign(run.p, values);
    const news = run.model.chosen?.(run.p, values) ?? {};
    Object.assign(run.p, news);
    if ([...Object.keys(values), ...Object.keys(news)].some(id => run.model.fresh.includes(id))) begin(run);
    else follow(run);
    ui.told({ p: { ...values, ...news }, link: { ...run.p } });
    later(run, ui);
  },
  act(run, name, ui) {
    if (name === 'play' || name === 'pause') run.play = name === 'play';
    if (name === 'reset') begin(run);
    if (name === 'step') Object.assign(run, { play: false, once: true });
    run.then = performance.now();
    later(run, ui);
  },
  ack: (run, _, ui) => run.play && later(run, ui),
  drag: (run, [i, ...point], ui) => change(run, ui, state => run.model.drag?.(run.p, state, i, point)),
  add: (run, point, ui) => change(run, ui, state => run.model.add?.(run.p, state, point)),
  remove: (run, i, ui) => change(run, ui, state => run.model.remove?.(run.p, state, i)),
};

function change(run, ui, edit) {
  const size = run.state.y.length;
  edit(run.state);
  if (run.state.y.length !== size) ui.told({ p: { n: run.p.n } });
  follow(run);
  later(run, ui);
}

// ------------------------------------------------------------------------------------------------ running
function begin(run) {
  run.random = generator(run.p.seed ?? 0);
  run.state = run.model.start(run.p, run.random);
  Object.assign(run, { t: run.model.log ? 0.01 : 0, first: true, steps: 0, step: 1e-3 });
  follow(run);
}

// After anything was changed by hand, slopes are computed anew.
function follow(run) {
  run.rate = run.model.rate(run.p, run.state);
  run.solver = solver(run.rate, run.state.y.length);
}

function later(run, ui) {
  if (run.due) return;
  run.due = true;
  setTimeout(() => {
    run.due = false;
    if (run.play || run.once) advance(run, ui);
    run.once = false;
    ui.frame(frame(run));
  });
}

// As far as the wall clock says, within the time that a frame may take.
function advance(run, ui) {
  const { model, p, state } = run, now = performance.now(), seconds = Math.min((now - run.then) / 1000, 0.05) || 1 / 60;
  const goal = model.log ? run.t * Math.exp(p.speed * seconds) : run.t + p.speed * seconds;
  run.then = now;
  while (run.t < goal * (1 - 1e-12) && performance.now() - now < BUDGET) {
    const most = Math.min(goal - run.t, model.longest?.(p) ?? Infinity), tried = run.step >= most ? most : run.step;
    const { accepted, next } = run.solver(run.t, state.y, tried);
    if (accepted) {
      run.t += tried;
      run.steps++;
      model.settle?.(p, state);
      if (model.kick?.(p, state, tried, run.random)) run.solver.forget();
    }
    if (!accepted || tried === run.step || next < run.step) run.step = next;
    if (!(run.step > 1e-12 * Math.max(run.t, 1e-6))) return ended(run, ui, `It ends here: the solution runs away at t = ${short(run.t)}.`);
  }
  const reason = model.over?.(p, state, run.t);
  if (reason) ended(run, ui, reason);
}

function ended(run, ui, words) {
  run.play = false;
  ui.told({ say: words, kind: 'ended' });
}

function frame(run) {
  const seen = run.model.seen(run.p, run.state, run.t), first = run.first;
  run.first = false;
  const info = { time: short(run.t), ...seen.info, steps: run.steps, accuracy: short(TOLERANCE) };
  return { seq: ++run.seq, t: run.t, first, play: run.play, log: run.model.log, unit: 0, reach: 1, ...seen, info };
}

// One step of Bogacki and Shampine's pair of orders 3 and 2; the last slope of an accepted step is the first of the next.
export function solver(rate, size) {
  const [k1, k2, k3, k4, z] = Array.from({ length: 5 }, () => new Float64Array(size));
  let known = false;
  function step(t, y, h) {
    if (!known) rate(t, y, k1);
    for (let i = 0; i < size; i++) z[i] = y[i] + h / 2 * k1[i];
    rate(t + h / 2, z, k2);
    for (let i = 0; i < size; i++) z[i] = y[i] + 3 * h / 4 * k2[i];
    rate(t + 3 * h / 4, z, k3);
    for (let i = 0; i < size; i++) z[i] = y[i] + h / 9 * (2 * k1[i] + 3 * k2[i] + 4 * k3[i]);
    rate(t + h, z, k4);
    let error = 0;
    for (let i = 0; i < size; i++) error = Math.max(error, Math.abs(h * (-5 * k1[i] / 72 + k2[i] / 12 + k3[i] / 9 - k4[i] / 8)) / (1 + Math.abs(y[i])));
    const accepted = error <= TOLERANCE, factor = Math.min(4, Math.max(0.2, 0.9 * Math.cbrt(TOLERANCE / (error || 1e-30))));
    known = true;
    if (accepted) { y.set(z); k1.set(k4); }
    return { accepted, next: h * factor };
  }
  step.forget = () => { known = false; };
  return step;
}

// ------------------------------------------------------------------------------------------------ parts of models
// Random numbers that a link brings back: uniform, and normal.
export function generator(seed) {
  let a = (seed * 2654435761 + 12345) >>> 0;
  const uniform = () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = Math.imul(a ^ (a >>> 15), a | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  return { uniform, normal: () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform()) };
}

export function uniformSphere(n, d, random) {
  return normalize(Float64Array.from({ length: n * d }, random.normal), d);
}

export function normalize(x, d) {
  for (let i = 0; i < x.length; i += d) {
    let r = 0;
    for (let k = i; k < i + d; k++) r += x[k] * x[k];
    r = Math.sqrt(r);
    for (let k = i; k < i + d; k++) x[k] /= r;
  }
  return x;
}

export const single = (x, d) => shaped(Float32Array.from(x), [x.length / d, d]);
export const curve = points => shaped(Float32Array.from(points.flat()), [points.length, points[0].length]);

// Greedy clusters: the first token without one leads the next. Leaders are taken in order, so that colours are steady.
export function leaders(x, n, d, bound = 0.975) {
  const label = new Uint8Array(n).fill(255);
  let count = 0;
  for (let i = 0; i < n && count < 250; i++) {
    if (label[i] !== 255) continue;
    for (let j = i; j < n; j++) if (label[j] === 255 && inner(x, d, i, j) > bound) label[j] = count;
    count++;
  }
  return { label, count };
}

export function inner(x, d, i, j) {
  let s = 0;
  for (let k = 0; k < d; k++) s += x[d * i + k] * x[d * j + k];
  return s;
}

// Overlaps of a sample of pairs, in 40 bins from -1 to 1.
export function overlaps(x, n, d, most = 128) {
  const bins = new Float32Array(40), every = Math.max(1, Math.floor(n / most));
  for (let i = 0; i < n; i += every) for (let j = 0; j < i; j += every) bins[Math.min(39, Math.max(0, Math.floor((inner(x, d, i, j) + 1) * 20)))]++;
  return bins;
}

// The attention matrix of a sample of tokens in a given order, its largest entry at 255.
export function matrix(x, d, order, weight) {
  const k = order.length, out = new Float32Array(k * k);
  for (let i = 0; i < k; i++) {
    const row = order.map(j => weight(inner(x, d, order[i], j), order[i], j)), sum = row.reduce((s, v) => s + v, 0);
    row.forEach((v, j) => { out[i * k + j] = v / sum; });
  }
  const most = Math.max(...out);
  return shaped(Uint8Array.from(out, v => 255 * v / most), [k, k]);
}
