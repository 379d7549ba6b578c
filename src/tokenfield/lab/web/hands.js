// Hands on the stage: pointers, wheel and keys.
// A token that is dragged moves; dragging elsewhere turns the view; wheel, pinch and + - zoom. A double click adds a token,
// or removes the one under it. By keyboard: arrows turn, n and p choose a token, Shift and arrows move it, Delete removes it.

export function handle(canvas, camera, seen, act) {
  const place = (i, d = seen.frame.x.shape[1]) => [0, 1, 2].map(k => (k < d ? seen.frame.x[i * d + k] : 0));
  const steerable = () => seen.frame?.drag && (seen.frame.split?.length ?? 1) === 1;
  const round = () => seen.frame.unit && !camera.flat;
  const onCanvas = ([x, y]) => [(x + 1) / 2 * canvas.clientWidth, (1 - y) / 2 * canvas.clientHeight];
  const picture = ([px, py]) => [2 * px / canvas.clientWidth - 1, 1 - 2 * py / canvas.clientHeight];
  const local = event => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const touch = () => { seen.stale = true; };

  function nearest([px, py]) {
    let best = -1, least = 16;
    const eye = camera.axes()[2];
    for (let i = 0; i < seen.frame.x.shape[0]; i++) {
      const p = place(i);
      if (round() && p[0] * eye[0] + p[1] * eye[1] + p[2] * eye[2] < 0) continue;
      const [x, y] = onCanvas(camera.project(p)), distance = Math.hypot(x - px, y - py);
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
    const i = seen.chosen, there = camera.project(place(i)), [px, py] = onCanvas(there);
    if (!steerable()) return;
    act({ drag: [i, ...under([px + 8 * right, py - 8 * up], there[2])] });
    act({ drop: i });
  }
  canvas.addEventListener('keydown', key);

  const middle = () => [canvas.clientWidth / 2, canvas.clientHeight / 2];
  return {
    addInView: () => add(camera.flat && seen.frame.unit ? [1, 0] : under(middle().map(v => v * (0.85 + 0.3 * Math.random())))),
    removeChosen: () => remove(seen.chosen),
    chosen: () => seen.chosen,
    steerable,
    where: i => onCanvas(camera.project(place(i))),
    zoom: factor => { camera.nearer(factor); touch(); },
    fit: () => { Object.assign(camera, { yaw: 0.9, pitch: 0.35, zoom: 1 }); touch(); },
  };
}
