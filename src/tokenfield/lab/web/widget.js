// The laboratory in a notebook, as an anywidget. A stored run plays without a kernel; a live one asks the kernel for frames.

import { mount, settle } from './lab.js';
import { player } from './player.js';

const bytesOf = view => (view instanceof ArrayBuffer ? new Uint8Array(view) : new Uint8Array(view.buffer, view.byteOffset, view.byteLength));

function live(model, root) {
  const ui = mount(root, model.get('hello'), message => model.send(message));
  const hear = (message, buffers) => (buffers?.length ? ui.frame(bytesOf(buffers[0]).slice().buffer) : ui.told(message));
  model.on('msg:custom', hear);
  settle(message => model.send(message), ui.told);
  for (let i = 0; i < 2; i++) model.send({ ack: 0 }); // two frames under way, as on the page
  return () => { model.off('msg:custom', hear); ui.dispose(); };
}

function recorded(model, root) {
  const ui = player(root, model.get('hello'), bytesOf(model.get('film')));
  return () => ui.then(mounted => mounted.dispose());
}

export default {
  render({ model, el }) {
    const root = document.createElement('div');
    root.style.setProperty('--lab-height', `${model.get('height')}px`);
    el.append(root);
    return model.get('film')?.byteLength ? recorded(model, root) : live(model, root);
  },
};
