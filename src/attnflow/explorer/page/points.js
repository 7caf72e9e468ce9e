// WebGL points, for more tokens than a 2D canvas draws smoothly.

const VERTEX = `
attribute vec3 place; attribute vec3 colour;
uniform mat3 turn; uniform vec2 scale; uniform vec2 shift; uniform float size;
varying vec4 shade;
void main() {
  vec3 seen = turn * place;
  gl_Position = vec4(seen.xy * scale + shift, 0.0, 1.0);
  gl_PointSize = size;
  shade = vec4(colour, 0.55 + 0.35 * clamp(seen.z, -1.0, 1.0));
}`;
const FRAGMENT = `
precision mediump float; varying vec4 shade;
void main() {
  float r = length(gl_PointCoord - 0.5) * 2.0;
  if (r > 1.0) discard;
  gl_FragColor = vec4(shade.rgb * shade.a, shade.a) * smoothstep(1.0, 0.75, r);
}`;

export class PointCloud {
  constructor(canvas) {
    this.canvas = canvas;
    this.gl = undefined;
  }

  #open() {
    // Opened when first needed, since an idle context slows down every frame.
    const gl = this.gl = this.canvas.getContext("webgl", { antialias: false, premultipliedAlpha: true });
    if (!gl) return;
    const program = this.program = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    gl.useProgram(program);
    this.attributes = { place: this.#attribute("place", 3, gl.FLOAT, 12), colour: this.#attribute("colour", 3, gl.UNSIGNED_BYTE, 4) };
    this.uniforms = Object.fromEntries(["turn", "scale", "shift", "size"].map((name) => [name, gl.getUniformLocation(program, name)]));
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  get works() {
    if (this.gl === undefined) this.#open();
    return Boolean(this.gl);
  }

  clear() { if (this.gl) this.gl.clear(this.gl.COLOR_BUFFER_BIT); }

  draw(points, colours, { matrix, scale, shift, size }) {
    const gl = this.gl;
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clear(gl.COLOR_BUFFER_BIT);
    this.#fill("place", points);
    this.#fill("colour", colours);
    const m = matrix, at = this.uniforms;
    gl.uniformMatrix3fv(at.turn, false, [m[0], m[3], m[6], m[1], m[4], m[7], m[2], m[5], m[8]]);
    gl.uniform2f(at.scale, ...scale);
    gl.uniform2f(at.shift, ...shift);
    gl.uniform1f(at.size, size);
    gl.drawArrays(gl.POINTS, 0, points.length / 3);
  }

  #attribute(name, count, kind, stride) {
    // The buffer of an attribute with `count` numbers for each dot, `stride` bytes apart.
    const gl = this.gl, place = gl.getAttribLocation(this.program, name), buffer = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.enableVertexAttribArray(place);
    gl.vertexAttribPointer(place, count, kind, kind === gl.UNSIGNED_BYTE, stride, 0); // bytes become 0 to 1
    return buffer;
  }

  #fill(name, values) {
    this.gl.bindBuffer(this.gl.ARRAY_BUFFER, this.attributes[name]);
    this.gl.bufferData(this.gl.ARRAY_BUFFER, values, this.gl.DYNAMIC_DRAW);
  }
}
