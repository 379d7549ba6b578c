// The stage: tokens, curves and densities on the circle, the sphere, in the plane and in space, drawn with WebGL2.
//   show(frame)   takes a frame: x (n, 2 or 3), label, perhaps size, curve0, curve1, ..., field
//   draw(now)     draws what lies between the last two frames, if anything has changed
// `act(message)` hears of tokens that are dragged, added and removed.

import { element, clamp, calm, pixelRatio } from './dom.js';
import { ramp, lightness } from './colours.js';
import { Camera } from './camera.js';
import { paint } from './paint.js';
import { handle } from './hands.js';

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
    const other = !old || flat !== camera.flat || ['unit', 'scaffold'].some(name => old[name] !== frame[name]) || !old.field !== !frame.field;
    painter.load(frame, jump);
    if (other || !frame.unit) painter.scaffold(frame);
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
    const [wide, high] = [canvas.clientWidth, canvas.clientHeight].map(size => Math.round(size * pixelRatio()));
    if (!wide || !high || !seen.frame) return;
    if (canvas.width !== wide || canvas.height !== high) {
      Object.assign(canvas, { width: wide, height: high });
      seen.stale = true;
    }
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
