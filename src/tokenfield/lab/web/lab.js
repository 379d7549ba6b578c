// The laboratory's front end: ES modules, no dependencies, no build step.
//   const ui = mount(root, hello, send)     hello tells what to show: controls, panels, values
//   ui.frame(buffer)  one binary frame      ui.told(message)  one JSON message      ui.lost(bool)      ui.dispose()
// `send(message)` is a websocket, a Jupyter comm, a recorded run or a simulation in this tab: nothing here knows which.

import { element, short, download, calm } from './dom.js';
import { unpack, fromBase64 } from './wire.js';
import { rgb, PALETTE } from './colours.js';
import { stage } from './stage.js';
import { grid } from './paint.js';
import { plot } from './plots.js';
import { controls } from './controls.js';

const PLOT_EVERY = 100; // milliseconds: ten times a second is enough for plots and numbers

export function mount(root, hello, send) {
  root.classList.add('lab');
  root.setAttribute('data-lm-suppress-shortcuts', 'true');
  const parts = furniture(send, () => lab);
  const counts = { frames: 0, since: performance.now(), plotted: 0 };
  const lab = { root, send, parts, hello, playing: true, last: null, fresh: false, t: NaN, plots: new Map(), ...counts };
  root.replaceChildren(parts.head, parts.view, parts.side, parts.panels);
  lab.scene = stage(parts.view, message => act(lab, message));
  parts.view.append(parts.titles, parts.tools);
  furnish(lab, hello);
  const forget = listen(lab);
  animate(lab);
  return {
    frame: buffer => take(lab, buffer instanceof ArrayBuffer ? unpack(buffer) : buffer),
    told: message => told(lab, message),
    lost: is => lost(lab, is),
    dispose() {
      lab.gone = true;
      forget();
      lab.scene?.dispose();
    },
    // For tests: what is shown now.
    look: () => ({ frame: lab.last, where: lab.scene?.where, chosen: lab.scene?.chosen() }),
  };
}

// ------------------------------------------------------------------------------------------------ furniture
const button = (name, text, onclick, title = '') =>
  element('button', { type: 'button', textContent: text, onclick, title, 'data-act': name, 'data-lm-suppress-shortcuts': 'true' });

// The parts of the page that are there whatever is shown.
function furniture(send, lab) {
  const play = button('play', 'Pause', () => send({ act: lab().playing ? 'pause' : 'play' }), 'Play or pause (space)');
  const bar = element('div', { className: 'bar', role: 'group', 'aria-label': 'playing' }, play,
    button('step', 'Step', () => send({ act: 'step' }), 'One step (s)'), button('reset', 'Reset', () => send({ act: 'reset' }), 'From the start again (r)'));
  const status = element('p', { className: 'status', role: 'status', 'aria-live': 'polite' });
  const title = element('h1'), numbers = element('dl', { className: 'numbers' }), slot = element('div'), chooser = element('div', { className: 'chooser' });
  const files = element('div', { className: 'bar files', role: 'group', 'aria-label': 'downloads' });
  return {
    title, play, status, numbers, slot, chooser, files,
    head: element('header', {}, title, bar, status),
    view: element('section', { className: 'view', 'aria-label': 'stage' }),
    titles: element('div', { className: 'titles', 'aria-hidden': 'true' }),
    tools: tools(lab),
    side: element('aside', { 'aria-label': 'controls' }, slot, chooser, numbers, files),
    panels: element('section', { className: 'panels', 'aria-label': 'plots' }),
  };
}

function tools(lab) {
  const scene = () => lab().scene;
  return element('div', { className: 'tools', role: 'group', 'aria-label': 'view' },
    button('add', 'Add', () => scene()?.addInView(), 'Add a token (double click)'),
    button('remove', 'Remove', () => scene()?.removeChosen(), 'Remove the chosen token (Delete)'),
    button('out', '−', () => scene()?.zoom(1 / 1.2), 'Zoom out'),
    button('in', '+', () => scene()?.zoom(1.2), 'Zoom in'),
    button('fit', 'Fit', () => scene()?.fit(), 'The whole, from where one began'));
}

// What this hello asks for. The stage stays, and whoever had the focus has it again.
function furnish(lab, hello) {
  const { parts, send } = lab, focused = document.activeElement?.dataset?.control;
  lab.hello = hello;
  parts.title.textContent = hello.title;
  lab.controls = controls(hello.controls, { ...hello.p }, (id, value) => send({ set: { [id]: value } }));
  parts.slot.replaceChildren(lab.controls.body);
  parts.files.replaceChildren(...files(lab));
  lab.shown = hello.shown ?? hello.panels.slice(0, 4).map(panel => panel.id);
  lab.can = hello.can ?? hello.panels.map(panel => panel.id);
  parts.titles.replaceChildren(...(hello.members ?? []).map(member => element('span', { textContent: member.title })));
  offer(lab);
  share(lab, hello.link);
  if (focused) lab.root.querySelector(`[data-control="${focused}"]`)?.focus();
}

function files(lab) {
  const { send, hello } = lab;
  const ask = (act, text, title) => button(act, text, () => send({ act }), title);
  const picture = button('picture', 'Picture', async () => download('tokens.png', await lab.scene.picture()), 'What the stage shows, as PNG');
  if (!hello.record) return [picture];
  const [toml, film] = [ask('toml', 'Spec', 'This experiment as a TOML file'), ask('film', 'Film', 'The run so far as one HTML file')];
  return [toml, picture, film, ask('data', 'Data', 'The state as an .npz file')];
}

// ------------------------------------------------------------------------------------------------ panels
// Of the panels that the present measure has, the chosen ones; where none of them is, the first few.
function offer(lab) {
  const { hello, send } = lab;
  lab.offered = hello.panels.filter(panel => lab.can.includes(panel.id));
  if (lab.offered.length && !lab.offered.some(panel => lab.shown.includes(panel.id))) {
    lab.shown = lab.offered.slice(0, 4).map(panel => panel.id);
    send({ panels: lab.shown });
  }
  lab.parts.chooser.replaceChildren(...chooser(lab));
  hang(lab);
}

function chooser(lab) {
  const { hello, send } = lab, open = lab.parts.chooser.querySelector('details')?.open ?? false;
  if (lab.offered.length < 2) return [];
  const box = panel => element('label', { className: 'choice' }, element('input', {
    type: 'checkbox', checked: lab.shown.includes(panel.id), 'data-panel': panel.id, 'data-lm-suppress-shortcuts': 'true',
    onchange: event => {
      const want = new Set(lab.shown);
      if (event.target.checked) want.add(panel.id); else want.delete(panel.id);
      lab.shown = hello.panels.map(p => p.id).filter(id => want.has(id));
      hang(lab);
      send({ panels: lab.shown });
    },
  }), panel.title);
  return [element('details', { open }, element('summary', { textContent: 'Plots' }), ...lab.offered.map(box))];
}

// The chosen panels, in their order; those that stay keep their lines.
function hang(lab) {
  const { parts } = lab, before = lab.plots;
  lab.plots = new Map();
  const figures = lab.offered.filter(panel => lab.shown.includes(panel.id)).map(panel => {
    const old = before.get(panel.id);
    if (old?.panel.title === panel.title) return lab.plots.set(panel.id, old) && old.figure;
    const box = element('div'), figure = element('figure', { 'data-figure': panel.id }, element('figcaption', {}, panel.title, ...legend(panel)), box);
    lab.plots.set(panel.id, { panel, figure, ...plot(box, panel, () => lab.css) });
    return figure;
  });
  parts.panels.replaceChildren(...figures);
  lab.root.classList.toggle('bare', !figures.length);
  lab.fresh = Boolean(lab.last);
}

// Names of several lines, each beside its colour.
function legend(panel) {
  return (panel.names ?? []).map((name, k) => {
    const key = element('span', { className: 'key', textContent: name });
    key.style.setProperty('--key', PALETTE[k % PALETTE.length]);
    return key;
  });
}

function keep(lab, frame) {
  for (const { panel, add, set, clear } of lab.plots.values()) {
    if (frame.first || frame.t < lab.t) clear();
    const value = frame[panel.id];
    if (panel.kind !== 'line') value && set(value);
    else if (value !== null && value !== undefined && frame.t !== lab.t) add(frame.t, value, frame.log);
  }
}

// ------------------------------------------------------------------------------------------------ frames
function take(lab, frame) {
  if (frame.first) lab.t = NaN;
  keep(lab, frame);
  lab.scene?.show(frame);
  if (frame.play && !lab.playing && lab.note) say(lab, lab.note = '');
  Object.assign(lab, { last: frame, t: frame.t, fresh: true, playing: frame.play });
  lab.frames++;
  lab.acks = (lab.acks ?? []).concat(frame.seq);
  lab.parts.play.textContent = frame.play ? 'Pause' : 'Play';
}

// Acknowledged after it was drawn: a hidden tab draws nothing, so it asks for nothing.
function animate(lab) {
  requestAnimationFrame(function tick(now) {
    if (lab.gone) return;
    requestAnimationFrame(tick);
    lab.scene?.draw(now);
    flush(lab);
    for (const seq of lab.acks?.splice(0) ?? []) lab.send({ ack: seq });
    if (now - lab.plotted < PLOT_EVERY) return;
    lab.plotted = now;
    for (const each of lab.plots.values()) each.draw();
    if (lab.fresh) tellNumbers(lab, now);
    lab.fresh = false;
  });
}

function tellNumbers(lab, now) {
  const { last, parts, scene } = lab;
  if (now - lab.since > 1000) {
    lab.rate = Math.round(lab.frames * 1000 / (now - lab.since));
    Object.assign(lab, { frames: 0, since: now });
  }
  const pairs = Object.entries({ ...(last.info ?? { time: short(last.t) }), ...(lab.rate ? { 'frames / s': lab.rate } : {}) });
  if (parts.numbers.children.length !== 2 * pairs.length) parts.numbers.replaceChildren(...pairs.flatMap(() => [element('dt'), element('dd')]));
  pairs.flat().forEach((text, i) => { if (parts.numbers.children[i].textContent !== String(text)) parts.numbers.children[i].textContent = text; });
  const steer = Boolean(scene?.steerable());
  for (const name of ['add', 'remove']) parts.tools.querySelector(`[data-act=${name}]`).hidden = !steer;
  for (const { figure, panel } of lab.plots.values()) figure.classList.toggle('vacant', lab.plots.get(panel.id).empty());
  scene?.canvas.setAttribute('aria-label', last.caption ?? `${last.x.shape[0]} points at time ${short(last.t)}`);
  tile(lab);
}

// Titles of small multiples lie on the same grid as the pictures.
function tile({ hello, parts, scene }) {
  if (!hello.members?.length || !scene) return;
  const [columns, rows] = grid(hello.members.length, scene.canvas.clientWidth, scene.canvas.clientHeight);
  parts.titles.style.setProperty('--columns', columns);
  parts.titles.style.setProperty('--rows', rows);
}

// ------------------------------------------------------------------------------------------------ messages
// Of a token that is dragged, its last place a picture is told.
function act(lab, message) {
  if (message.drag) return void (lab.drag = message);
  flush(lab);
  lab.send(message);
}
function flush(lab) {
  if (lab.drag) lab.send(lab.drag);
  lab.drag = null;
}

function told(lab, message) {
  if (message.controls) furnish(lab, message);
  if (message.note) Object.assign(lab, { note: message.note }) && say(lab, '');
  if ('say' in message) say(lab, message.say, message.kind);
  if (message.p) lab.controls.tell(message.p);
  if (message.can && !message.controls && String(message.can) !== String(lab.can)) Object.assign(lab, { can: message.can }) && offer(lab);
  share(lab, message.link);
  if (message.toml) download(message.name ?? 'spec.toml', new Blob([message.toml], { type: 'application/toml' }));
  if (message.film) download(message.name ?? 'film.html', new Blob([message.film], { type: 'text/html' }));
  if (message.data) download(message.name ?? 'data.npz', new Blob([fromBase64(message.data)], { type: 'application/octet-stream' }));
}

// A note stands where nothing else is said, until it plays.
function say(lab, words, kind = '') {
  lab.parts.status.textContent = words || lab.note || '';
  lab.parts.status.dataset.kind = words ? kind : '';
}

// The experiment as an address: whoever embeds the laboratory may put it there.
function share(lab, link) {
  if (link) lab.root.dispatchEvent(new CustomEvent('link', { detail: link, bubbles: true }));
}

function lost(lab, is) {
  lab.root.classList.toggle('lost', is);
  if (is) say(lab, 'The laboratory does not answer. Trying again …', 'busy');
  else if (lab.parts.status.dataset.kind === 'busy') say(lab, '');
}

// ------------------------------------------------------------------------------------------------ listening
const VARIABLES = ['ink', 'dim', 'edge', 'line', 'accent', 'paper', 'stage'];
function theme(lab) {
  const computed = getComputedStyle(lab.root);
  lab.css = Object.fromEntries(VARIABLES.map(name => [name, computed.getPropertyValue(`--${name}`).trim()]));
  lab.css.dark = computed.getPropertyValue('--dark').trim() === '1';
  lab.scene?.theme({ back: rgb(lab.css.stage), ink: rgb(lab.css.ink), accent: rgb(lab.css.accent), dim: rgb(lab.css.dim), edge: rgb(lab.css.edge) });
  stale(lab);
}

// How wide the laboratory is, not its window: it may stand in a notebook's cell.
function measure(lab) {
  lab.root.classList.toggle('narrow', lab.root.clientWidth < 1080);
  lab.root.classList.toggle('slim', lab.root.clientWidth < 700);
  stale(lab);
}
const stale = lab => { for (const each of lab.plots.values()) each.stale(); lab.scene?.redraw(); };

function listen(lab) {
  const scheme = matchMedia('(prefers-color-scheme: dark)'), repaint = () => theme(lab);
  const sizes = new ResizeObserver(() => measure(lab)), themes = new MutationObserver(repaint);
  const keys = event => shortcut(lab, event);
  scheme.addEventListener('change', repaint);
  themes.observe(document.body, { attributes: true, attributeFilter: ['data-jp-theme-light'] });
  sizes.observe(lab.root);
  lab.root.addEventListener('keydown', keys);
  measure(lab);
  theme(lab);
  return () => {
    scheme.removeEventListener('change', repaint);
    lab.root.removeEventListener('keydown', keys);
    sizes.disconnect();
    themes.disconnect();
  };
}

// Space, s and r, unless the key belongs to the control that has the focus.
function shortcut(lab, event) {
  if (/INPUT|SELECT|BUTTON|SUMMARY/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
  const name = { ' ': 'play', s: 'step', r: 'reset' }[event.key];
  if (!name) return;
  event.preventDefault();
  lab.root.querySelector(`[data-act=${name}]`).click();
}

// Where the system asks for less motion, nothing begins to move by itself.
export function settle(send, tell) {
  if (!calm()) return;
  send({ act: 'pause' });
  tell({ note: 'Paused, since this system asks for less motion. Play starts it.' });
}
