// A camera that circles the origin with z upward, or looks straight down on a plane. The world is scaled by 1 / reach.

import { clamp } from './dom.js';

const FOCUS = 1 / Math.tan(0.3), NEAR = 0.05, DEEP = 60;
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];

export class Camera {
  yaw = 0.9; pitch = 0.35; zoom = 1; flat = false; reach = 1; centre = [0, 0, 0]; aspect = 1;

  turn(yaw, pitch) {
    this.yaw += yaw;
    this.pitch = clamp(this.pitch + pitch, -1.5, 1.5);
  }

  nearer(factor) { this.zoom = clamp(this.zoom * factor, 0.3, 8); }

  get distance() { return 3.9 / this.zoom; }

  // Unit vectors to the right, upward, and toward the eye.
  axes() {
    if (this.flat) return [[1, 0, 0], [0, 1, 0], [0, 0, 1]];
    const [cy, sy, cp, sp] = [Math.cos(this.yaw), Math.sin(this.yaw), Math.cos(this.pitch), Math.sin(this.pitch)];
    return [[-sy, cy, 0], [-sp * cy, -sp * sy, cp], [cp * cy, cp * sy, sp]];
  }

  // How much a unit to the right and a unit upward take of the picture.
  spread() {
    const fit = FOCUS * Math.min(1, this.aspect);
    return [fit / this.aspect, fit];
  }

  // The matrix that WebGL multiplies points with, columns first.
  matrix() {
    const [right, up, eye] = this.axes(), [wide, high] = this.spread(), s = 1 / this.reach;
    const a = (DEEP + NEAR) / (NEAR - DEEP), b = 2 * DEEP * NEAR / (NEAR - DEEP), out = new Float32Array(16);
    for (let k = 0; k < 3; k++) out.set([wide * s * right[k], high * s * up[k], a * s * eye[k], -s * eye[k]], 4 * k);
    for (let r = 0; r < 4; r++) out[12 + r] = -(out[r] * this.centre[0] + out[4 + r] * this.centre[1] + out[8 + r] * this.centre[2]);
    out[14] += b - a * this.distance;
    out[15] += this.distance;
    return out;
  }

  // A point of the world in the picture: x and y from -1 to 1, and its depth.
  project(point) {
    const [right, up, eye] = this.axes(), [wide, high] = this.spread();
    const p = point.map((v, k) => (v - this.centre[k]) / this.reach), depth = this.distance - dot(eye, p);
    return [wide * dot(right, p) / depth, high * dot(up, p) / depth, depth];
  }

  // The point of the world at x, y in the picture and at that depth.
  at(x, y, depth) {
    const [right, up, eye] = this.axes(), [wide, high] = this.spread();
    const [u, v, w] = [x * depth / wide, y * depth / high, this.distance - depth];
    return [0, 1, 2].map(k => this.centre[k] + this.reach * (u * right[k] + v * up[k] + w * eye[k]));
  }

  // Where the ray through x, y meets the unit sphere first; beside the sphere, its nearest point.
  onSphere(x, y) {
    const p = this.at(x, y, 0.1), q = this.at(x, y, 1), d = q.map((v, k) => v - p[k]);
    const A = dot(d, d), B = dot(p, d), D = B * B - A * (dot(p, p) - 1);
    const s = D > 0 ? (-B - Math.sqrt(D)) / A : -B / A, hit = p.map((v, k) => v + s * d[k]), r = Math.sqrt(dot(hit, hit));
    return hit.map(v => v / r);
  }
}
