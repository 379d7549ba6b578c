// Controls, made from what Python declares: menus, ranges (each with a field for exact numbers), switches.
//   const list = controls(declared, values, set)   ->   {body, tell(values), names}
// `set(id, value)` hears of every change. A control with `when` is there only while the named values are as listed.

import { element, clamp, short } from './dom.js';

const GROUPS = { start: 'Start', flow: 'Flow', time: 'Time', view: 'View' };
let made = 0; // ids stay apart where several laboratories stand on one page

export function controls(declared, values, set) {
  const parts = new Map();
  const change = (id, value) => {
    values[id] = value;
    arrange();
    set(id, value);
  };
  for (const control of declared) {
    const make = kindOf(control), value = values[control.id] ?? control.value;
    parts.set(control.id, { control, ...make(control, value, news => change(control.id, news)) });
  }

  function arrange() {
    for (const { control, row } of parts.values())
      row.hidden = Object.entries(control.when ?? {}).some(([id, allowed]) => !allowed.map(String).includes(String(values[id])));
    for (const section of body.querySelectorAll('.group')) section.hidden = ![...section.querySelectorAll('.control')].some(row => !row.hidden);
  }

  const groups = [...new Set(declared.map(control => control.group ?? ''))];
  const rows = group => declared.filter(control => (control.group ?? '') === group).map(control => parts.get(control.id).row);
  const body = element('div', { className: 'controls' }, ...groups.map(group => section(group, rows(group))));
  arrange();
  return {
    body,
    tell(news) {
      Object.assign(values, news);
      for (const [id, value] of Object.entries(news)) parts.get(id)?.show(value);
      arrange();
    },
  };
}

function section(group, rows) {
  const title = GROUPS[group] ?? group;
  return element('section', { className: 'group', 'aria-label': title || 'controls' }, title ? element('h2', { textContent: title }) : null, ...rows);
}

const kindOf = control => (control.options ? menu : control.switch ? toggle : range);

// What every control has: an id, a name to be found by, a sentence of help; and JupyterLab leaves its keys alone.
const OURS = { 'data-lm-suppress-shortcuts': 'true' };
const common = ({ id, help }) => ({ id: `lab-${++made}-${id}`, 'data-control': id, ...OURS, ...(help ? { title: help, 'aria-description': help } : {}) });
const label = (control, input) => element('label', { for: input.id, textContent: control.label });

function menu(control, value, change) {
  const words = name => control.names?.[name] ?? String(name).replaceAll('_', ' ');
  const option = name => element('option', { value: name, textContent: words(name) });
  const input = element('select', { ...common(control), onchange: () => change(input.value) }, ...control.options.map(option));
  const long = control.options.some(name => words(name).length > 14); // then it stands below its label
  input.value = value;
  return { row: element('div', { className: `control menu${long ? ' long' : ''}` }, label(control, input), input), show: news => { input.value = news; } };
}

function toggle(control, value, change) {
  const input = element('input', { ...common(control), type: 'checkbox', checked: Boolean(value), onchange: () => change(input.checked) });
  return { row: element('div', { className: 'control switch' }, label(control, input), input), show: news => { input.checked = Boolean(news); } };
}

function range(declared, value, change) {
  const control = { min: 0, max: 1, ...declared };
  const { to, from } = scale(control), shared = common(control);
  const step = control.log ? (to(control.max) - to(control.min)) / 400 : control.step ?? (control.max - control.min) / 200;
  const slider = element('input', { ...shared, type: 'range', min: to(control.min), max: to(control.max), step });
  const name = `${control.label}, exact value`;
  const field = element('input', { type: 'text', inputMode: 'decimal', className: 'exact', 'aria-label': name, 'data-exact': control.id, ...OURS });
  let current = value;
  const show = (news, moving) => {
    current = news;
    if (!moving && !slider.matches(':active')) slider.value = to(news);
    if (document.activeElement !== field) field.value = shown(control, news);
    slider.setAttribute('aria-valuetext', shown(control, news));
  };
  slider.oninput = () => { show(from(+slider.value), true); change(current); };
  field.onchange = () => { show(read(control, field.value, current)); field.value = shown(control, current); change(current); };
  field.onfocus = () => field.select();
  show(value);
  field.value = shown(control, value);
  return { row: element('div', { className: 'control range' }, label(control, slider), field, slider), show };
}

// Between a control's value and the place of its slider.
function scale(control) {
  const whole = v => (control.whole ? Math.round(v) : v);
  if (!control.log) return { to: v => v, from: v => whole(+v.toFixed(9)) };
  const end = v => (v >= control.max * 0.9999 ? control.max : v <= control.min * 1.0001 ? control.min : +v.toPrecision(3));
  return { to: Math.log, from: v => whole(end(Math.exp(v))) };
}

const isOff = (control, value) => control.off !== undefined && value >= control.off;
const shown = (control, value) => control.texts?.[value] ?? (isOff(control, value) ? 'off' : control.whole ? String(value) : short(+value));

function read(control, text, current) {
  if (text.trim() === 'off' && control.off !== undefined) return control.max;
  const value = Number(text.trim().replace('−', '-').replace(',', '.'));
  if (!Number.isFinite(value) || text.trim() === '' || control.texts) return current;
  return clamp(control.whole ? Math.round(value) : value, control.min, control.max);
}
