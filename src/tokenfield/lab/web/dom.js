// Small helpers that every part of the page uses.

export const clamp = (x, low, high) => Math.min(high, Math.max(low, x));

// Names with a dash, and those that are attributes only, are set as attributes; all others as properties.
const ATTRIBUTES = new Set(['role', 'for']);
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key.includes('-') || ATTRIBUTES.has(key)) made.setAttribute(key, value);
    else made[key] = value;
  }
  made.append(...children.filter(child => child !== null && child !== undefined));
  return made;
}

// A number as one reads it: four digits, powers of ten where they are shorter.
export function short(value) {
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) return value.toExponential(1).replace('.0e', 'e').replace('e+', 'e').replaceAll('-', '−');
  return String(+value.toPrecision(4)).replace('-', '−');
}

export function download(name, blob) {
  const link = element('a', { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 2000);
}

export const calm = () => matchMedia('(prefers-reduced-motion: reduce)').matches;

// Pixels of the screen to one of the page; more than two are not seen.
export const pixelRatio = () => Math.min(devicePixelRatio || 1, 2);
