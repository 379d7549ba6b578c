// The stage: tokens, curves and densities on the circle, the sphere, in the plane and in space, drawn with WebGL2.
//   show(frame)   takes a frame: x (n, 2 or 3), label, perhaps size, curve0, curve1, ..., field
//   draw(now)     draws what lies between the last two frames, if anything has changed
// `act(message)` hears of tokens that are dragged, added and removed.

import { element, clamp, calm } from './dom.js';
import { PALETTE, ramp, rgb, lightness } from './colours.js';
import { Camera } from './camera.js';
import { TOKENS, STRIPS, BALL, DENSITY } from './shaders.js';

const TAU = 2 * Math.PI;

export function stage(box, act) {
  const canvas = box.appendChild(element('canvas', { tabIndex: 0, role: 'img', className: 'stage', 'aria-label': 'stage' }));
  const gl = canvas.getContext('webgl2', { antialias: !softwareGL(), alpha: false });
  if (!gl) {
    box.append(element('p', { className: 'missing', textContent: 'This page draws with WebGL2, which this browser does not offer.' }));
    return null;
  }
  const camera = new Camera();
  const look = { back: [1, 1, 1], ink: [0, 0, 0], accent: [0, 0, 1], dim: [0.5, 0.5, 0.5], edge: [0.5, 0.5, 0.5] };
  const seen = { frame: null, before: 0, gap: 40, chosen: -1, stale: true, reach: 1 };
  let painter = paint(gl);

  canvas.addEventListener('webglcontextlost', event => event.preventDefault());
  canvas.addEventListener('webglcontextrestored', () => {
    painter = paint(gl);
    theme(look);
    if (seen.frame) show({ ...seen.frame, first: true });
  });

  function show(frame) {
    const now = performance.now(), old = seen.frame, flat = frame.x.shape[1] === 2;
    const jump = frame.first || !old || old.x.length !== frame.x.length || old.unit !== frame.unit || calm();
    painter.load(frame, jump);
    if (!old || flat !== camera.flat || old.unit !== frame.unit || old.scaffold !== frame.scaffold || Boolean(old.field) !== Boolean(frame.field) || !frame.unit) painter.scaffold(frame);
    if (seen.before && !jump) seen.gap = clamp(0.8 * seen.gap + 0.2 * (now - seen.before), 8, 250);
    camera.flat = flat;
    camera.centre = frame.centre ?? [0, 0, 0];
    seen.reach = jump && frame.first ? (frame.reach ?? 1) : seen.reach + 0.15 * ((frame.reach ?? 1) - seen.reach);
    if (frame.x.shape[0] <= seen.chosen) seen.chosen = -1;
    Object.assign(seen, { frame, before: now, stale: true });
  }

  // How far the picture has come from the frame before to this one, from 0 to 1.
  const mixing = now => clamp((now - seen.before) / seen.gap, 0, 1);

  function draw(now) {
    const ratio = Math.min(devicePixelRatio || 1, 2), wide = Math.round(canvas.clientWidth * ratio), high = Math.round(canvas.clientHeight * ratio);
    if (!wide || !high || !seen.frame) return;
    if (canvas.width !== wide || canvas.height !== high) Object.assign(canvas, { width: wide, height: high }) && (seen.stale = true);
    const part = mixing(now);
    if (!seen.stale && seen.still) return;
    seen.stale = false;
    seen.still = part === 1;
    camera.reach = seen.reach;
    painter.draw(camera, look, seen, part, wide, high);
  }

  function theme(colours) {
    Object.assign(look, colours);
    painter.colours(ramp(lightness(look.back) < 0.5));
    seen.stale = true;
  }

  const hands = handle(canvas, camera, seen, act);
  return {
    canvas, show, draw, theme, ...hands,
    redraw() { seen.stale = true; },
    picture: () => new Promise(done => { // in the same task as the drawing: the buffer need not be preserved
      seen.stale = true;
      draw(performance.now());
      canvas.toBlob(done);
    }),
    positions: () => seen.frame?.x,
    dispose() { gl.getExtension('WEBGL_lose_context')?.loseContext(); },
  };
}

// Antialiasing is the business of a graphics card: a processor that plays one has better things to do.
function softwareGL() {
  const gl = document.createElement('canvas').getContext('webgl2');
  const about = gl?.getExtension('WEBGL_debug_renderer_info');
  const name = about ? gl.getParameter(about.UNMASKED_RENDERER_WEBGL) : '';
  gl?.getExtension('WEBGL_lose_context')?.loseContext();
  return /swiftshader|llvmpipe/i.test(name);
}

// ------------------------------------------------------------------------------------------------ painting
// All that belongs to one WebGL context; made anew when the context was lost.
function paint(gl) {
  const programs = Object.fromEntries(Object.entries({ TOKENS, STRIPS, BALL, DENSITY }).map(([name, text]) => [name, program(gl, text)]));
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
    const lines = frame.scaffold === false ? [] : !frame.unit ? cross(flat, frame.reach ?? 1) : flat ? [ring(t => [Math.cos(t), Math.sin(t), 0])] : frame.field ? [] : graticule();
    strips(wire, lines, lines.map(() => 'wire'));
  }

  // Pieces of polylines, six corners each, with both ends at every corner: two triangles. Neighbours of one style are one call.
  // (Instances would be shorter, but software graphics draw them one by one.)
  function strips(target, lines, styles = []) {
    const pieces = lines.reduce((sum, line) => sum + line.length / (line.shape?.[1] ?? 3) - 1, 0), all = new Float32Array(36 * Math.max(0, pieces));
    let at = 0;
    target.strips = [];
    lines.forEach((line, i) => {
      const size = line.shape?.[1] ?? 3, style = styles[i] ?? 'ink', first = at / 6, last = target.strips.at(-1);
      for (let k = 0; k + size < line.length; k += size) {
        for (let c = 0; c < 6; c++, at += 6) for (let q = 0; q < size; q++) [all[at + q], all[at + 3 + q]] = [line[k + q], line[k + size + q]];
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
    for (const [name, value] of [[gl.TEXTURE_MIN_FILTER, filter], [gl.TEXTURE_MAG_FILTER, filter], [gl.TEXTURE_WRAP_S, gl.REPEAT], [gl.TEXTURE_WRAP_T, gl.CLAMP_TO_EDGE]])
      gl.texParameteri(gl.TEXTURE_2D, name, value);
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
    const pixels = Math.min(devicePixelRatio || 1, 2);
    let first = 0;
    for (const [i, tile] of tiles(split.length, wide, high).entries()) {
      gl.viewport(...tile);
      camera.aspect = tile[2] / tile[3];
      const scene = { camera, look, view: camera.matrix(), eye: camera.axes()[2], wide: tile[2], high: tile[3], first, count: split[i], mixing, chosen: seen.chosen };
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
    const size = high * Math.min(1, camera.aspect) * Math.sqrt(camera.zoom) * clamp(2 / Math.sqrt(count), 0.033, 0.12) / camera.zoom;
    p.set({ view, eye, palette, plain: look.edge, back: look.back, ink: look.ink, mixing, size, chosen, unit: unit ? d - 1 : 0 });
    gl.drawArrays(gl.POINTS, 0, count);
  }

  return { load, scaffold, draw, colours(bytes) { texture(globe.ramp, gl.RGBA, 256, 1, gl.RGBA, bytes, gl.NEAREST); } };
}

// A line's colour and strength: a name, or the number of a cluster.
const STRENGTH = { wire: 0.2, dim: 0.45 };
const inkOf = (look, style) => (typeof style === 'number' ? [rgb(PALETTE[style % PALETTE.length]), 1] : [look[style] ?? look.ink, STRENGTH[style] ?? 1]);

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

const polylines = frame => Object.keys(frame).filter(name => /^curve\d+$/.test(name)).sort((a, b) => a.slice(5) - b.slice(5)).map(name => frame[name]);
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

// ------------------------------------------------------------------------------------------------ handling
// A token that is dragged moves; dragging elsewhere turns the view; wheel, pinch and + - zoom. A double click adds a token,
// or removes the one under it. By keyboard: arrows turn, n and p choose a token, Shift and arrows move it, Delete removes it.
function handle(canvas, camera, seen, act) {
  const place = (i, d = seen.frame.x.shape[1]) => [0, 1, 2].map(k => (k < d ? seen.frame.x[i * d + k] : 0));
  const steerable = () => seen.frame?.drag && (seen.frame.split?.length ?? 1) === 1;
  const round = () => seen.frame.unit && !camera.flat;
  const picture = ([px, py]) => [2 * px / canvas.clientWidth - 1, 1 - 2 * py / canvas.clientHeight];
  const local = event => { const r = canvas.getBoundingClientRect(); return [event.clientX - r.left, event.clientY - r.top]; };
  const touch = () => { seen.stale = true; };

  function nearest([px, py]) {
    let best = -1, least = 16;
    const [w, h] = [canvas.clientWidth / 2, canvas.clientHeight / 2], eye = camera.axes()[2];
    for (let i = 0; i < seen.frame.x.shape[0]; i++) {
      const p = place(i);
      if (round() && p[0] * eye[0] + p[1] * eye[1] + p[2] * eye[2] < 0) continue;
      const [x, y] = camera.project(p), distance = Math.hypot((x + 1) * w - px, (1 - y) * h - py);
      if (distance < least) [least, best] = [distance, i];
    }
    return best;
  }

  // The point under the pointer: on the sphere, on the circle, or at the depth of the token that is held.
  function under([px, py], depth = camera.distance) {
    const [x, y] = picture([px, py]);
    if (round()) return camera.onSphere(x, y);
    const p = camera.at(x, y, depth), r = Math.hypot(p[0], p[1]) || 1;
    if (!camera.flat) return p;
    return seen.frame.unit ? [p[0] / r, p[1] / r] : [p[0], p[1]];
  }

  const depthOf = i => camera.project(place(i))[2];
  const choose = i => { seen.chosen = i; touch(); };
  const add = point => steerable() && act({ add: point });
  const remove = i => { if (steerable() && i >= 0) { act({ remove: i }); choose(-1); } };

  const held = new Map(); // pointers that are down
  let token = -1, spread = 0;
  const apart = () => { const [a, b] = [...held.values()]; return Math.hypot(a[0] - b[0], a[1] - b[1]); };

  canvas.addEventListener('pointerdown', event => {
    if (!seen.frame) return;
    canvas.setPointerCapture(event.pointerId);
    held.set(event.pointerId, local(event));
    token = steerable() && held.size === 1 ? nearest(local(event)) : -1;
    if (token >= 0 || held.size === 1) choose(token);
    if (held.size === 2) spread = apart();
  });
  canvas.addEventListener('pointermove', event => {
    const from = held.get(event.pointerId), to = local(event);
    if (!from) return hint(to);
    held.set(event.pointerId, to);
    if (held.size === 2) { camera.nearer(apart() / spread); spread = apart(); }
    else if (token >= 0) act({ drag: [token, ...under(to, depthOf(token))] });
    else if (!camera.flat) camera.turn((from[0] - to[0]) * 0.008, (to[1] - from[1]) * 0.008);
    touch();
  });
  const letGo = event => {
    if (held.delete(event.pointerId) && token >= 0) act({ drop: token });
    token = -1;
  };
  canvas.addEventListener('pointerup', letGo);
  canvas.addEventListener('pointercancel', letGo);
  const hint = to => { canvas.classList.toggle('over', Boolean(steerable() && nearest(to) >= 0)); };
  canvas.addEventListener('dblclick', event => {
    if (!steerable()) return;
    const i = nearest(local(event));
    if (i >= 0) remove(i); else add(under(local(event)));
  });
  canvas.addEventListener('wheel', event => {
    event.preventDefault();
    camera.nearer(Math.exp(-event.deltaY * 0.001));
    touch();
  }, { passive: false });

  const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  function key(event) {
    const arrow = ARROWS[event.key], count = seen.frame?.x.shape[0] ?? 0;
    if (arrow && event.shiftKey && seen.chosen >= 0) nudge(arrow);
    else if (arrow && !camera.flat) camera.turn(arrow[0] * 0.1, arrow[1] * 0.1);
    else if (event.key === '+' || event.key === '=') camera.nearer(1.15);
    else if (event.key === '-') camera.nearer(1 / 1.15);
    else if (event.key === 'n' && count) choose((seen.chosen + 1) % count);
    else if (event.key === 'p' && count) choose((seen.chosen + count - 1 + (seen.chosen < 0)) % count);
    else if (event.key === 'Delete' || event.key === 'Backspace') remove(seen.chosen);
    else return;
    event.preventDefault();
    touch();
  }
  function nudge([right, up]) {
    const i = seen.chosen, [x, y, depth] = camera.project(place(i));
    const at = [(x + 1) / 2 * canvas.clientWidth + 8 * right, (1 - y) / 2 * canvas.clientHeight - 8 * up];
    if (!steerable()) return;
    act({ drag: [i, ...under(at, depth)] });
    act({ drop: i });
  }
  canvas.addEventListener('keydown', key);

  const middle = () => [canvas.clientWidth / 2, canvas.clientHeight / 2];
  return {
    addInView: () => add(camera.flat && seen.frame.unit ? [1, 0] : under(middle().map(v => v * (0.85 + 0.3 * Math.random())))),
    removeChosen: () => remove(seen.chosen),
    chosen: () => seen.chosen,
    steerable,
    where: i => { const [x, y] = camera.project(place(i)); return [(x + 1) / 2 * canvas.clientWidth, (1 - y) / 2 * canvas.clientHeight]; },
    zoom: factor => { camera.nearer(factor); touch(); },
    fit: () => { Object.assign(camera, { yaw: 0.9, pitch: 0.35, zoom: 1 }); touch(); },
  };
}
