// Binary frames: u32 length of the header | header, JSON padded to 4 bytes | arrays, each padded to 4 bytes.
// The header's `arrays` lists name, type and shape of each. Nothing is copied: arrays are views of the buffer.

const ARRAYS = { float32: Float32Array, uint8: Uint8Array, uint16: Uint16Array, int16: Int16Array, int32: Int32Array };
const padded = bytes => Math.ceil(bytes / 4) * 4;

export function unpack(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const frame = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let at = 4 + length;
  for (const [name, type, shape] of frame.arrays) {
    const size = shape.reduce((product, axis) => product * axis, 1);
    frame[name] = shaped(new ARRAYS[type](buffer, at, size), shape);
    at += padded(frame[name].byteLength);
  }
  return frame;
}

export function shaped(array, shape) {
  array.shape = shape;
  return array;
}

export function fromBase64(text) {
  return Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
}
