// Colours of clusters: told apart with every common kind of colour blindness (a test measures it), on paper and on slate.
// 255 is "no cluster". Ramps go from the background to full ink in even steps of lightness.

export const PALETTE = ['#2359c5', '#e18b00', '#2ca06f', '#b54783', '#90b7e1', '#f36e46', '#7c6ed1', '#807b03'];
const PAPER = [[251, 251, 252], [205, 220, 243], [128, 166, 222], [52, 97, 178], [18, 34, 92]];
const SLATE = [[24, 30, 41], [37, 63, 117], [54, 110, 186], [115, 172, 228], [226, 240, 252]];

export const rgb = hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16) / 255);
export const lightness = ([r, g, b]) => 0.2126 * r + 0.7152 * g + 0.0722 * b;

// 256 colours as bytes r, g, b, a; the square root gives small values their share.
export function ramp(dark) {
  const stops = dark ? SLATE : PAPER, bytes = new Uint8Array(4 * 256);
  for (let i = 0; i < 256; i++) {
    const v = Math.sqrt(i / 255) * (stops.length - 1.0001), k = Math.floor(v);
    for (let c = 0; c < 3; c++) bytes[4 * i + c] = stops[k][c] + (v - k) * (stops[k + 1][c] - stops[k][c]);
    bytes[4 * i + 3] = 255;
  }
  return bytes;
}
