// The programs of the stage, in GLSL: tokens, lines, the ball behind them, a density on the sphere.

export const TOKENS = [`#version 300 es
in vec3 before, now; in float label, weight;
uniform mat4 view; uniform vec3 eye, palette[8], plain; uniform float mixing, size, unit, chosen;
out vec3 colour; out float facing, ring;
void main() {
  vec3 p = mix(before, now, mixing);
  if (unit > 0.) p /= max(length(p), 1e-6);
  gl_Position = view * vec4(p, 1.);
  ring = float(gl_VertexID) == chosen ? 1. : 0.;
  gl_PointSize = max(3., size * sqrt(weight) * (1. + .9 * ring) / gl_Position.w);
  colour = label > 254. ? plain : palette[int(mod(label, 8.))];
  facing = unit > 1.5 ? smoothstep(-.5, .6, dot(p, eye)) : 1.;
}`, `#version 300 es
precision mediump float;
in vec3 colour; in float facing, ring; uniform vec3 back, ink; out vec4 o;
void main() {
  vec2 u = 2. * gl_PointCoord - 1.; float r = length(u); if (r > 1.) discard;
  vec3 lit = colour * (.9 + .1 * sqrt(1. - r * r) - .06 * u.y);
  vec3 body = mix(lit, ring > 0. ? ink : back, smoothstep(.76, .86, r));
  o = vec4(mix(back, body, .2 + .8 * facing), 1.);
}`];

// Each piece of a line is two triangles, as wide as asked for in pixels and soft at its edges.
export const STRIPS = [`#version 300 es
in vec3 from, to; uniform mat4 view; uniform vec3 eye; uniform float round; uniform highp float width; uniform vec3 screen; out float facing, across;
void main() {
  int corner = gl_VertexID % 6; if (corner > 2) corner -= 2; // 0 1 2, 1 2 3
  bool end = corner > 1; float side = float(corner & 1) * 2. - 1.;
  vec4 p = view * vec4(from, 1.), q = view * vec4(to, 1.), c = end ? q : p;
  vec2 along = normalize((q.xy / q.w - p.xy / p.w) * screen.xy + vec2(1e-7, 0.));
  across = side * (.5 * width + 1.);
  c.xy += vec2(-along.y, along.x) * across * 2. / screen.xy * c.w;
  gl_Position = c;
  facing = round > 0. ? .3 + .7 * smoothstep(-.3, .5, dot(normalize(end ? to : from), eye)) : 1.;
}`, `#version 300 es
precision mediump float;
in float facing, across; uniform vec4 ink; uniform highp float width; out vec4 o;
void main() { o = vec4(ink.rgb, ink.a * facing * clamp(.5 * width + .5 - abs(across), 0., 1.)); }`];

// A disc that faces the eye, where the sphere's outline is; shaded so that it reads as a ball.
export const BALL = [`#version 300 es
uniform mat4 view; uniform vec3 right, up; uniform float radius; out vec2 u;
void main() {
  u = vec2(float(gl_VertexID & 1), float(gl_VertexID >> 1)) * 2. - 1.;
  gl_Position = view * vec4(radius * (u.x * right + u.y * up), 1.);
}`, `#version 300 es
precision mediump float;
in vec2 u; uniform vec3 back, ink; out vec4 o;
void main() {
  float r = dot(u, u); if (r > 1.) discard;
  o = vec4(mix(back, ink, .02 + .05 * r + dot(u, vec2(.015, -.021))), 1.);
}`];

export const DENSITY = [`#version 300 es
in vec3 point; uniform mat4 view; out vec3 p;
void main() {
  p = point;
  gl_Position = view * vec4(point, 1.);
}`, `#version 300 es
precision highp float;
in vec3 p; uniform sampler2D field, colours; uniform vec3 eye; uniform float columns; out vec4 o;
void main() {
  vec3 q = normalize(p);
  vec2 at = vec2(atan(q.y, q.x) / 6.28318531, acos(clamp(q.z, -1., 1.)) / 3.14159265);
  float value = texture(field, at + vec2(.5 / columns, 0.)).r; // columns begin at longitude 0, rows half a row below the pole
  vec3 c = texture(colours, vec2(value * 255. / 256. + .5 / 256., .5)).rgb;
  o = vec4(c * (.86 + .14 * max(dot(q, eye), 0.)), 1.);
}`];
