// A recorded run: frames from gzipped bytes, by the browser's own DecompressionStream. It answers as a server would.

import { mount } from './lab.js';
import { unpack, shaped, fromBase64 } from './wire.js';
import { calm } from './dom.js';

const EVERY = 33; // milliseconds between frames while it plays

// player(root, hello, film): film is gzip, as bytes or as base64. Resolves to what `mount` returned.
export async function player(root, hello, film) {
  const bytes = typeof film === 'string' ? fromBase64(film.trim()) : film;
  const read = reader(await unzip(bytes));
  const state = { at: 0, play: !calm(), due: null, shown: 0 };
  const show = first => {
    state.shown = performance.now();
    const frame = read(state.at);
    ui.frame({ ...frame, seq: state.at, play: state.play, first });
    ui.told({ p: { frame: state.at } });
  };
  const go = at => {
    const first = at < state.at;
    state.at = Math.max(0, Math.min(at, read.count - 1));
    if (state.at === read.count - 1) state.play = false;
    show(first);
  };
  const next = () => {
    state.due = null;
    if (state.play) go(state.at + 1);
  };
  const later = () => { state.due ??= setTimeout(next, Math.max(0, state.shown + EVERY - performance.now())); };
  const answers = {
    set: values => { state.play = false; go(values.frame); },
    act: name => acts[name]?.(),
    ack: () => state.play && later(),
  };
  const acts = {
    play() { state.play = true; go(state.at >= read.count - 1 ? 0 : state.at + 1); },
    pause() { state.play = false; show(false); },
    step() { state.play = false; go(state.at + 1); },
    reset() { go(0); },
  };
  const ui = mount(root, hello, message => { for (const [kind, value] of Object.entries(message)) answers[kind]?.(value); });
  show(true);
  return ui;
}

async function unzip(bytes) {
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).arrayBuffer();
}

// read(i) is frame i with its positions as numbers. Coordinates are sixteen bits, one coordinate after the other, and perhaps
// differences to the frame before: the sums are kept, so that going on costs one frame, and going back begins at the start.
function reader(all) {
  const view = new DataView(all), places = [];
  for (let at = 0; at < all.byteLength; at += 4 + view.getUint32(at, true)) places.push([at + 4, at + 4 + view.getUint32(at, true)]);
  let known = -1, whole = null, kept = {};
  function advance(i) {
    const frame = unpack(all.slice(...places[i]));
    whole = frame.delta && whole ? whole.map((q, k) => q + frame.x[k]) : Int16Array.from(frame.x);
    known = i;
    kept = { ...kept, ...Object.fromEntries(Object.entries(frame).filter(([name]) => name === 'label' || name === 'size')) };
    return { ...kept, ...frame };
  }
  function read(i) {
    if (i <= known) [known, whole, kept] = [-1, null, {}];
    let frame;
    while (known < i) frame = advance(known + 1);
    return { ...frame, x: positions(whole, frame.x.shape, frame.range) };
  }
  read.count = places.length;
  return read;
}

function positions(whole, [d, n], range) {
  const x = new Float32Array(n * d);
  for (let k = 0; k < d; k++) for (let i = 0; i < n; i++) x[i * d + k] = whole[k * n + i] * range / 32767;
  return shaped(x, [n, d]);
}
