// Painting on one WebGL context: tokens, lines, the ball and densities on it, on a grid of pictures where there are several.
// `paint(gl)` makes all that belongs to the context; it is made anew when the context was lost.

import { clamp, pixelRatio } from './dom.js';
import { PALETTE, rgb } from './colours.js';
import { TOKENS, STRIPS, BALL, DENSITY } from './shaders.js';

const TAU = 2 * Math.PI;

export function paint(gl) {
  const texts = Object.entries({ TOKENS, STRIPS, BALL, DENSITY }), programs = Object.fromEntries(texts.map(([name, text]) => [name, program(gl, text)]));
  const buffer = () => gl.createBuffer();
  const cloud = { now: buffer(), before: buffer(), label: buffer(), size: buffer(), n: 0, d: 3, sized: false };
  const wire = { buffer: buffer(), strips: [] }, curves = { buffer: buffer(), strips: [] };
  const globe = { buffer: buffer(), index: buffer(), count: 0, field: gl.createTexture(), ramp: gl.createTexture(), columns: 0 };
  const palette = new Float32Array(PALETTE.flatMap(rgb));
  let unit = 0, split = null;
  gl.enable(gl.BLEND);
  gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
  gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);

  const fill = (target, data) => { gl.bindBuffer(gl.ARRAY_BUFFER, target); gl.bufferData(gl.ARRAY_BUFFER, data, gl.DYNAMIC_DRAW); };

  // What was now is before: no copy, and one upload straight from the bytes that came.
  function load(frame, jump) {
    const [n, d] = frame.x.shape;
    [cloud.before, cloud.now] = [cloud.now, cloud.before];
    fill(cloud.now, frame.x);
    if (jump) fill(cloud.before, frame.x);
    fill(cloud.label, frame.label ?? new Uint8Array(n));
    if ((cloud.sized = Boolean(frame.size))) fill(cloud.size, frame.size);
    Object.assign(cloud, { n, d });
    unit = frame.unit;
    split = frame.split ?? [n];
    strips(curves, polylines(frame), frame.curves);
    if (frame.field) density(frame.field);
    globe.shown = Boolean(frame.field);
  }

  // The scaffold: the sphere's graticule, the circle, or a cross of axes.
  function scaffold(frame) {
    const flat = frame.x.shape[1] === 2;
    const around = flat ? [ring(t => [Math.cos(t), Math.sin(t), 0])] : frame.field ? [] : graticule();
    const lines = frame.scaffold === false ? [] : frame.unit ? around : cross(flat, frame.reach ?? 1);
    strips(wire, lines, lines.map(() => 'wire'));
  }

  // Pieces of polylines, six corners each, with both ends at every corner: two triangles. Neighbours of one style are one call.
  // (Instances would be shorter, but software graphics draw them one by one.)
  function strips(target, lines, styles = []) {
    const pieces = lines.reduce((sum, line) => sum + line.length / (line.shape?.[1] ?? 3) - 1, 0);
    const all = new Float32Array(36 * Math.max(0, pieces));
    let at = 0;
    target.strips = [];
    lines.forEach((line, i) => {
      const size = line.shape?.[1] ?? 3, style = styles[i] ?? 'ink', first = at / 6, last = target.strips.at(-1);
      for (let k = 0; k + size < line.length; k += size) {
        for (let c = 0; c < 6; c++, at += 6) {
          for (let q = 0; q < size; q++) [all[at + q], all[at + 3 + q]] = [line[k + q], line[k + size + q]];
        }
      }
      if (last?.style === style) last.count = at / 6 - last.first; else target.strips.push({ first, count: at / 6 - first, style });
    });
    fill(target.buffer, all);
  }

  function density(field) {
    const [rows, columns] = field.shape;
    if (!globe.count) mesh();
    globe.columns = columns;
    texture(globe.field, gl.R8, columns, rows, gl.RED, field, gl.LINEAR);
  }

  function texture(target, kind, wide, high, format, data, filter) {
    gl.bindTexture(gl.TEXTURE_2D, target);
    gl.texImage2D(gl.TEXTURE_2D, 0, kind, wide, high, 0, format, gl.UNSIGNED_BYTE, data);
    const settings = { TEXTURE_MIN_FILTER: filter, TEXTURE_MAG_FILTER: filter, TEXTURE_WRAP_S: gl.REPEAT, TEXTURE_WRAP_T: gl.CLAMP_TO_EDGE };
    for (const [name, value] of Object.entries(settings)) gl.texParameteri(gl.TEXTURE_2D, gl[name], value);
  }

  function mesh(rows = 40, columns = 80) {
    const points = [], index = [];
    for (let i = 0; i <= rows; i++) for (let j = 0; j <= columns; j++) {
      const [θ, φ] = [i / rows * Math.PI, j / columns * TAU];
      points.push(Math.sin(θ) * Math.cos(φ), Math.sin(θ) * Math.sin(φ), Math.cos(θ));
      const k = i * (columns + 1) + j;
      if (i < rows && j < columns) index.push(k, k + 1, k + columns + 1, k + 1, k + columns + 1, k + columns + 2);
    }
    fill(globe.buffer, new Float32Array(points));
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, globe.index);
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, new Uint16Array(index), gl.STATIC_DRAW);
    globe.count = index.length;
  }

  function draw(camera, look, seen, mixing, wide, high) {
    gl.viewport(0, 0, wide, high);
    gl.clearColor(...look.back, 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    if (camera.flat) gl.disable(gl.DEPTH_TEST); else gl.enable(gl.DEPTH_TEST);
    const pixels = pixelRatio();
    let first = 0;
    for (const [i, tile] of tiles(split.length, wide, high).entries()) {
      gl.viewport(...tile);
      camera.aspect = tile[2] / tile[3];
      const [view, eye, [, , w, h]] = [camera.matrix(), camera.axes()[2], tile];
      const scene = { camera, look, view, eye, wide: w, high: h, first, count: split[i], mixing, chosen: seen.chosen };
      if (globe.shown) drawDensity(scene);
      else if (unit && !camera.flat) drawBall(scene);
      drawStrips(scene, wire, pixels);
      if (i === 0) drawStrips(scene, curves, 1.6 * pixels);
      if (split[i]) drawTokens(scene);
      first += split[i];
    }
  }

  function drawBall({ camera, look, view }) {
    const p = programs.BALL, [right, up] = camera.axes(), far = camera.distance * camera.reach;
    gl.useProgram(p.program);
    gl.depthMask(false);
    gl.disable(gl.BLEND);
    p.set({ view, right, up, back: look.back, ink: look.ink, radius: far > 1.05 ? 1 / Math.sqrt(1 - 1 / (far * far)) : 3 });
    gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
    gl.enable(gl.BLEND);
    gl.depthMask(true);
  }

  function drawDensity({ view, eye }) {
    const p = programs.DENSITY;
    gl.useProgram(p.program);
    gl.activeTexture(gl.TEXTURE0); gl.bindTexture(gl.TEXTURE_2D, globe.field);
    gl.activeTexture(gl.TEXTURE1); gl.bindTexture(gl.TEXTURE_2D, globe.ramp);
    gl.activeTexture(gl.TEXTURE0);
    p.set({ view, eye, columns: globe.columns });
    gl.uniform1i(p.where('field'), 0); gl.uniform1i(p.where('colours'), 1);
    p.attribute('point', globe.buffer, 3);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, globe.index);
    gl.drawElements(gl.TRIANGLES, globe.count, gl.UNSIGNED_SHORT, 0);
  }

  function drawStrips({ camera, look, view, eye, wide, high }, set, width) {
    if (!set.strips.length) return;
    const p = programs.STRIPS;
    gl.useProgram(p.program);
    gl.depthMask(false);
    p.set({ view, eye, round: unit && !camera.flat ? 1 : 0, width, screen: [wide, high, 0] });
    p.attribute('from', set.buffer, 3, gl.FLOAT, 0, 24);
    p.attribute('to', set.buffer, 3, gl.FLOAT, 12, 24);
    for (const { first, count, style } of set.strips) {
      const [colour, alpha] = inkOf(look, style);
      gl.uniform4f(p.where('ink'), ...colour, alpha);
      gl.drawArrays(gl.TRIANGLES, first, count);
    }
    gl.depthMask(true);
  }

  function drawTokens({ camera, look, view, eye, high, first, count, mixing, chosen }) {
    const p = programs.TOKENS, { d } = cloud;
    gl.useProgram(p.program);
    p.attribute('before', cloud.before, d, gl.FLOAT, 4 * d * first);
    p.attribute('now', cloud.now, d, gl.FLOAT, 4 * d * first);
    p.attribute('label', cloud.label, 1, gl.UNSIGNED_BYTE, first);
    if (cloud.sized) p.attribute('weight', cloud.size, 1, gl.FLOAT, 4 * first);
    else p.constant('weight', 1);
    const size = high * Math.min(1, camera.aspect) * clamp(2 / Math.sqrt(count), 0.033, 0.12) / Math.sqrt(camera.zoom);
    p.set({ view, eye, palette, plain: look.edge, back: look.back, ink: look.ink, mixing, size, chosen, unit: unit ? d - 1 : 0 });
    gl.drawArrays(gl.POINTS, 0, count);
  }

  return { load, scaffold, draw, colours(bytes) { texture(globe.ramp, gl.RGBA, 256, 1, gl.RGBA, bytes, gl.NEAREST); } };
}

// A line's colour and strength: a name, or the number of a cluster.
const STRENGTH = { wire: 0.2, dim: 0.45 };
const inkOf = (look, style) =>
  typeof style === 'number' ? [rgb(PALETTE[style % PALETTE.length]), 1] : [look[style] ?? look.ink, STRENGTH[style] ?? 1];

// A linked program; `set` fills uniforms by their name and the length of their value.
function program(gl, [vertex, fragment]) {
  const made = gl.createProgram(), places = {};
  for (const [kind, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS) && !gl.isContextLost()) throw Error(gl.getShaderInfoLog(shader));
    gl.attachShader(made, shader);
  }
  gl.linkProgram(made);
  const where = name => (places[name] ??= gl.getUniformLocation(made, name));
  const set = values => {
    for (const [name, value] of Object.entries(values)) {
      if (typeof value === 'number') gl.uniform1f(where(name), value);
      else if (value.length === 16) gl.uniformMatrix4fv(where(name), false, value);
      else gl.uniform3fv(where(name), value);
    }
  };
  const attribute = (name, buffer, size, type = gl.FLOAT, offset = 0, stride = 0) => {
    const k = gl.getAttribLocation(made, name);
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.enableVertexAttribArray(k);
    gl.vertexAttribPointer(k, size, type, false, stride, offset);
  };
  const constant = (name, value) => {
    const k = gl.getAttribLocation(made, name);
    gl.disableVertexAttribArray(k);
    gl.vertexAttrib1f(k, value);
  };
  return { program: made, where, set, attribute, constant };
}

const polylines = frame =>
  Object.keys(frame).filter(name => /^curve\d+$/.test(name)).sort((a, b) => a.slice(5) - b.slice(5)).map(name => frame[name]);
const ring = point => Array.from({ length: 97 }, (_, i) => point(i / 96 * TAU)).flat();
const cross = (flat, reach) => {
  const r = (flat ? 20 : 1.1) * reach; // beyond the picture of a plane; in space, where an axis ends it shows how far one sees
  return [[-r, 0, 0, r, 0, 0], [0, -r, 0, 0, r, 0], ...(flat ? [] : [[0, 0, -r, 0, 0, r]])];
};

function graticule() {
  const lines = [];
  for (let i = 0; i < 6; i++) {
    const φ = i * Math.PI / 6, z = Math.cos((i + 0.5) * Math.PI / 6), r = Math.sqrt(1 - z * z);
    lines.push(ring(t => [Math.cos(t) * Math.cos(φ), Math.cos(t) * Math.sin(φ), Math.sin(t)]));
    lines.push(ring(t => [r * Math.cos(t), r * Math.sin(t), z]));
  }
  return lines;
}

// A grid of small pictures, as near to squares as the stage allows: x, y, width and height of each, from the top left.
export function grid(count, wide, high) {
  let columns = 1;
  while (columns < count && wide / columns > high / Math.ceil(count / columns)) columns++;
  return [columns, Math.ceil(count / columns)];
}
function tiles(count, wide, high) {
  const [columns, rows] = grid(count, wide, high), [w, h] = [Math.floor(wide / columns), Math.floor(high / rows)];
  return Array.from({ length: count }, (_, i) => [(i % columns) * w, high - (Math.floor(i / columns) + 1) * h, w, h]);
}
