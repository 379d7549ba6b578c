// The page of `tokenfield play`: one websocket a tab, opened again when it closes. The experiment stands after the # of the address.

import { mount, settle } from './lab.js';

const root = document.querySelector('main');
const FINAL = { 4403: 'The laboratory refused this page.', 4429: 'Too many tabs or messages: close some, then load this page again.' };
let ui = null, socket = null, wait = 250;

function wanted() {
  try { return JSON.parse(decodeURIComponent(location.hash.slice(1) || '{}')); } catch { return {}; }
}

const send = message => { if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message)); };

function greet(hello) {
  wait = 250;
  if (ui) ui.told(hello); else window.laboratory = ui = mount(root, hello, send);
  ui.lost(false);
  settle(send, ui.told);
}

function connect() {
  socket = new WebSocket(`${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/live${location.search}`);
  socket.binaryType = 'arraybuffer';
  socket.onopen = () => send({ hello: wanted() });
  socket.onmessage = ({ data }) => {
    if (typeof data !== 'string') return ui?.frame(data);
    const message = JSON.parse(data);
    if (message.controls) greet(message); else ui?.told(message);
  };
  socket.onclose = event => {
    if (FINAL[event.code]) return ui ? ui.told({ say: FINAL[event.code], kind: 'refused' }) : root.replaceChildren(FINAL[event.code]);
    ui?.lost(true);
    setTimeout(connect, wait = Math.min(2 * wait, 4000));
  };
}

root.addEventListener('link', event => history.replaceState(null, '', `#${encodeURIComponent(JSON.stringify(event.detail))}`));
addEventListener('hashchange', () => socket?.close()); // another experiment was typed into the address: begin with it
connect();
