// Plots beside the stage, on Canvas2D: lines in time, bars, heat maps. They draw when they are told to and something is new.

import { element, clamp, short, pixelRatio } from './dom.js';
import { PALETTE, ramp } from './colours.js';

const PLATEAU = 400; // milliseconds
const MOST = 2000; // points of a line; beyond, every other one is kept
const LEFT = 48, RIGHT = 12, TOP = 8, BOTTOM = 22;

// plot(box, {kind, title, range, step}, style) -> {add, set, clear, draw, stale}; style() tells the colours of the page.
export function plot(box, panel, style) {
  const canvas = box.appendChild(element('canvas', { role: 'img', 'aria-label': panel.title }));
  const pen = canvas.getContext('2d');
  const state = { xs: [], ys: [], bins: null, matrix: null, hover: null, dirty: true, log: false, now: -Infinity, since: 0 };
  const point = event => { state.hover = [event.offsetX, event.offsetY]; state.dirty = true; };
  canvas.addEventListener('pointermove', point);
  canvas.addEventListener('pointerdown', point);
  canvas.addEventListener('pointerleave', () => { state.hover = null; state.dirty = true; });
  const drawing = { line: drawLines, bars: drawBars, heat: drawHeat }[panel.kind];

  function sheet() {
    const ratio = pixelRatio(), [wide, high] = [canvas.clientWidth, canvas.clientHeight];
    if (canvas.width !== Math.round(wide * ratio) || canvas.height !== Math.round(high * ratio))
      Object.assign(canvas, { width: Math.round(wide * ratio), height: Math.round(high * ratio) });
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, wide, high);
    pen.font = '11px system-ui, sans-serif';
    const { xs, ys, now } = state, on = now > xs.at(-1); // the last value goes on until now
    return { pen, wide, high, colour: style(), ...state, xs: on ? [...xs, now] : xs, ys: on ? [...ys, ys.at(-1)] : ys, panel };
  }

  function keepPoint(x, y) {
    state.xs.push(x);
    state.ys.push(y);
    if (state.xs.length > MOST) for (const name of ['xs', 'ys']) state[name] = state[name].filter((_, i) => i % 2 === 0);
  }

  return {
    // A new point at x: a number, or a list of numbers, one a line. Numbers come anew ten times a second, frames more often: a value
    // that only waits for the next one is no plateau, one that stays longer is.
    add(x, y, log) {
      state.log = Boolean(log);
      state.dirty = true;
      const now = performance.now(), last = state.ys.at(-1), waits = state.xs.length > 0 && String(last) === String(y);
      if (waits) return void (state.now = x);
      if (now - state.since > PLATEAU && state.now > state.xs.at(-1)) keepPoint(state.now, last);
      keepPoint(x, y);
      Object.assign(state, { now: x, since: now });
    },
    set(values) {
      if (panel.kind === 'heat') state.matrix = values; else state.bins = values;
      state.dirty = true;
    },
    clear() { Object.assign(state, { xs: [], ys: [], bins: null, matrix: null, dirty: true, now: -Infinity }); },
    empty: () => !state.xs.length && !state.bins && !state.matrix,
    draw() {
      if (!state.dirty || !canvas.clientWidth) return;
      state.dirty = false;
      const said = drawing(sheet());
      canvas.setAttribute('aria-label', `${panel.title}: ${said ?? 'nothing yet'}`);
    },
    stale() { state.dirty = true; },
  };
}

// ------------------------------------------------------------------------------------------------ axes
export function ticks(low, high, count = 4) {
  const raw = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(raw)), step = power * [1, 2, 5, 10].find(m => m * power >= raw);
  const out = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + 1e-9 * step; v += step) out.push(Math.abs(v) < 1e-9 * step ? 0 : v);
  return out;
}

// Powers of ten between, not more than a few of them.
function decades(low, high, count = 4) {
  const every = Math.max(1, Math.ceil((high - low) / count)), out = [];
  for (let p = Math.ceil(low); p <= high; p++) if (p % every === 0) out.push(p);
  return out;
}

function axes({ pen, wide, high, colour }, [x0, x1], [y0, y1], log) {
  const X = x => LEFT + (x - x0) / (x1 - x0) * (wide - LEFT - RIGHT), Y = y => high - BOTTOM - (y - y0) / (y1 - y0) * (high - BOTTOM - TOP);
  Object.assign(pen, { strokeStyle: colour.line, fillStyle: colour.dim, lineWidth: 1, textAlign: 'right', textBaseline: 'middle' });
  pen.beginPath();
  for (const v of ticks(y0, y1, 3)) {
    pen.moveTo(LEFT, Math.round(Y(v)) + 0.5);
    pen.lineTo(wide - RIGHT, Math.round(Y(v)) + 0.5);
    pen.fillText(short(v), LEFT - 8, Y(v));
  }
  pen.stroke();
  Object.assign(pen, { textAlign: 'center', textBaseline: 'top' });
  for (const v of log ? decades(x0, x1) : ticks(x0, x1, 4)) pen.fillText(log ? power(v) : short(v), clamp(X(v), LEFT, wide - RIGHT - 4), high - BOTTOM + 7);
  return [X, Y];
}

const power = p => (Math.abs(p) < 3 ? short(10 ** p) : `1e${p}`.replace('-', '−'));

// Words beside a point, on the side where there is room, on a piece of the page's own paper.
function note({ pen, wide, high, colour }, x, y, words) {
  const right = x > wide / 2, size = pen.measureText(words).width, at = clamp(right ? x - 10 - size : x + 10, 2, wide - size - 2), top = clamp(y - 18, 2, high - 18);
  pen.fillStyle = colour.paper;
  pen.fillRect(at - 4, top - 2, size + 8, 17);
  Object.assign(pen, { fillStyle: colour.ink, textAlign: 'left', textBaseline: 'top' });
  pen.fillText(words, at, top);
}

// ------------------------------------------------------------------------------------------------ kinds
function extent(lines, step) {
  let [low, high] = [Infinity, -Infinity];
  for (const line of lines) for (const y of line) if (Number.isFinite(y)) { low = Math.min(low, y); high = Math.max(high, y); }
  if (low > high) return [0, 1];
  if (step) return [0, high + 1];
  const room = high - low > 1e-9 * Math.max(1, Math.abs(high)) ? 0.06 * (high - low) : 0.5 * (Math.abs(high) || 1);
  return [low - room, high + room];
}

function drawLines(sheet) {
  const { pen, colour, xs, ys, log, hover, panel } = sheet;
  const kept = xs.map((x, i) => i).filter(i => !log || xs[i] > 0);
  if (!kept.length) return null;
  const lines = Array.isArray(ys[0]) ? ys[0].map((_, k) => kept.map(i => ys[i][k])) : [kept.map(i => ys[i])];
  const at = kept.map(i => (log ? Math.log10(xs[i]) : xs[i])), [x0, x1] = [at[0], at.at(-1)];
  const [X, Y] = axes(sheet, [x0, x1 > x0 ? x1 : x0 + 1], extent(lines, panel.step), log);
  Object.assign(pen, { lineWidth: lines.length > 1 ? 1.3 : 1.8, lineJoin: 'round' });
  lines.forEach((line, k) => {
    pen.strokeStyle = lines.length > 1 ? PALETTE[k % PALETTE.length] : colour.accent;
    pen.beginPath();
    line.forEach((y, i) => {
      if (panel.step && i) pen.lineTo(X(at[i]), Y(line[i - 1]));
      pen.lineTo(X(at[i]), Y(y));
    });
    pen.stroke();
  });
  if (hover) noteLine(sheet, at, kept, lines, X, Y);
  return `now ${lines.map(line => short(line.at(-1))).join(', ')}`;
}

function noteLine(sheet, at, kept, lines, X, Y) {
  const { pen, colour, hover, xs } = sheet;
  let i = at.findIndex(x => X(x) >= hover[0]);
  if (i < 0) i = at.length - 1;
  pen.fillStyle = colour.ink;
  for (const line of lines) { pen.beginPath(); pen.arc(X(at[i]), Y(line[i]), 3, 0, 7); pen.fill(); }
  note(sheet, X(at[i]), Y(lines[0][i]), `t = ${short(xs[kept[i]])}: ${lines.slice(0, 4).map(line => short(line[i])).join(', ')}`);
}

function drawBars(sheet) {
  const { pen, wide, high, colour, bins, hover, panel } = sheet;
  if (!bins) return null;
  const [a, b] = panel.range ?? [0, bins.length], most = Math.max(...bins, 1e-12), [X, Y] = axes(sheet, [a, b], [0, most]);
  const width = (wide - LEFT - RIGHT) / bins.length;
  pen.fillStyle = colour.accent;
  bins.forEach((value, i) => pen.fillRect(LEFT + i * width, Y(value), Math.max(1, width - 1), high - BOTTOM - Y(value)));
  const middle = i => a + (i + 0.5) * (b - a) / bins.length;
  if (hover && hover[0] > LEFT && hover[0] < wide - RIGHT) {
    const i = clamp(Math.floor((hover[0] - LEFT) / width), 0, bins.length - 1);
    note(sheet, X(middle(i)), Y(bins[i]), `${short(middle(i))}: ${short(bins[i])}`);
  }
  return `most at ${short(middle(bins.indexOf(most)))}`;
}

const RAMPS = [false, true].map(dark => new Uint32Array(ramp(dark).buffer));
const easel = typeof document === 'undefined' ? null : document.createElement('canvas');
function drawHeat(sheet) {
  const { pen, wide, high, colour, matrix, hover } = sheet;
  if (!matrix) return null;
  const [rows, columns] = matrix.shape, image = new ImageData(columns, rows), pixels = new Uint32Array(image.data.buffer), colours = RAMPS[colour.dark ? 1 : 0];
  for (let i = 0; i < matrix.length; i++) pixels[i] = colours[matrix[i]];
  Object.assign(easel, { width: columns, height: rows });
  easel.getContext('2d').putImageData(image, 0, 0);
  const cell = Math.min((wide - 8) / columns, (high - 8) / rows), [w, h] = [cell * columns, cell * rows], [left, top] = [(wide - w) / 2, (high - h) / 2];
  pen.imageSmoothingEnabled = false;
  pen.drawImage(easel, left, top, w, h);
  pen.strokeStyle = colour.line;
  pen.strokeRect(left - 0.5, top - 0.5, w + 1, h + 1);
  const [i, j] = hover ? [Math.floor((hover[1] - top) / cell), Math.floor((hover[0] - left) / cell)] : [-1, -1];
  if (i >= 0 && j >= 0 && i < rows && j < columns) note(sheet, ...hover, `row ${i + 1}, column ${j + 1}: ${Math.round(matrix[i * columns + j] / 2.55)} %`);
  return `${rows} by ${columns}`;
}
