// The stage: tokens, trails, hulls and hyperplanes, centres, and whom the token pointed at attends to.

import { Camera, axesFor, hull, spread, toSpace } from "./geometry.js";
import { PointCloud } from "./points.js";

const MOST_ON_CANVAS = 2000, TRAIL = 28, MOST_TRAILED = 800, REACH = 14, FADES = 4;

export class Stage {
  constructor(root, theme) {
    this.root = root;
    this.theme = theme;
    this.canvas = root.querySelector("#drawing");
    this.pen = this.canvas.getContext("2d");
    this.cloud = new PointCloud(root.querySelector("#points"));
    this.camera = new Camera();
    this.view = { trails: true, hull: true, centres: true, colours: true };
    this.chosen = [0, 1, 2];
    this.principal = null;
    this.hovered = null;
    this.row = null;
    this.onHover = () => {};
    this.onView = () => {};
    this.restart({ isSphere: true, settings: { d: 3 }, centres: [] }, []);
    this.#listen();
    new ResizeObserver(() => this.#resize()).observe(root);
    this.#resize();
  }

  restart(model, palette, keepsCamera = false) {
    this.model = model;
    this.palette = palette;
    this.frame = this.points = this.planes = this.row = null;
    this.trail = [];
    this.extent = null;
    this.principal = null;
    if (!keepsCamera) this.camera.reset(model.settings.d);
  }

  show(frame) {
    const isNext = this.frame && frame.run === this.frame.run && frame.index > this.frame.index && frame.index - this.frame.index < 40;
    this.frame = frame;
    this.points = this.#place(frame);
    if (!isNext) this.trail = [];
    this.trail.push(this.points);
    if (this.trail.length > TRAIL) this.trail.shift();
    const size = this.model.isSphere ? 1 : spread(this.points);
    if (this.extent === null) this.extent = this.model.isSphere ? 1 : 1.05 * size;
    else if (size > this.extent) this.extent += 0.15 * (1.05 * size - this.extent);
    this.paint();
  }

  #place(frame) {
    const points = toSpace(frame, axesFor(frame.d, this.chosen, this.principal));
    if (frame.d === 1) {
      const height = this.extent ?? spread(points);
      for (let i = 0; i < frame.n; i++) points[3 * i + 1] = 0.7 * height * (1 - (2 * (i + 0.5)) / frame.n);
    }
    return points;
  }

  setAxes(chosen, principal) {
    this.chosen = chosen;
    this.principal = principal;
    this.trail = [];
    if (this.frame) { this.points = this.#place(this.frame); this.paint(); }
  }

  fit() {
    this.camera.zoom = 1;
    if (this.points) this.extent = this.model.isSphere ? 1 : 1.05 * spread(this.points);
    this.paint();
  }

  get scale() { return (0.44 * Math.min(this.width, this.height) * this.camera.zoom) / (this.extent ?? 1); }

  toScreen(x, y, z) {
    const [a, b, c] = this.camera.see(x, y, z), s = this.scale;
    return [this.width / 2 + s * a, this.height / 2 - s * b, c / (this.extent ?? 1)];
  }

  paint() {
    const pen = this.pen;
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    this.cloud.clear();
    this.#ground();
    if (!this.points) return;
    const n = this.frame.n;
    this.seen = Array.from({ length: n }, (_, i) => this.toScreen(this.points[3 * i], this.points[3 * i + 1], this.points[3 * i + 2]));
    if (this.view.hull) { this.#planes(); this.#hull(); }
    if (this.view.trails && n <= MOST_TRAILED) this.#trails();
    if (n > MOST_ON_CANVAS && this.cloud.works) this.#cloud(n);
    else this.#dots(n);
    if (this.view.centres) this.#centres();
    this.#attended();
  }

  #ground() {
    const pen = this.pen, s = this.scale, [x, y] = [this.width / 2, this.height / 2];
    pen.strokeStyle = this.theme.pale;
    pen.lineWidth = 1;
    if (this.model.isSphere && this.model.settings.d <= 3) {
      pen.beginPath();
      pen.arc(x, y, s, 0, 2 * Math.PI);
      pen.stroke();
      if (!this.camera.isFlat) this.#circles();
      return;
    }
    if (this.model.settings.d === 1) return;
    const reach = (this.extent ?? 1) * 1.05, axes = this.camera.isFlat ? 2 : 3;
    for (let k = 0; k < axes; k++) {
      const tip = [0, 0, 0];
      tip[k] = reach;
      this.#line(this.toScreen(...tip.map((one) => -one)), this.toScreen(...tip));
    }
  }

  #circles() {
    // Equator and meridians; the far half is fainter.
    for (const far of [true, false]) {
      this.pen.globalAlpha = far ? 0.45 : 1;
      this.pen.beginPath();
      for (let k = 0; k < 4; k++) this.#circle(k, far);
      this.pen.stroke();
    }
    this.pen.globalAlpha = 1;
  }

  #circle(k, far) {
    let isDown = false;
    for (let step = 0; step <= 72; step++) {
      const a = (step / 72) * 2 * Math.PI, b = (k * Math.PI) / 3, [c, s] = [Math.cos(a), Math.sin(a)];
      const [x, y, z] = k === 3 ? this.toScreen(c, 0, s) : this.toScreen(c * Math.cos(b), s, c * Math.sin(b));
      const draws = far ? z <= 0.02 : z >= -0.02;
      if (draws) this.pen[isDown ? "lineTo" : "moveTo"](x, y);
      isDown = draws;
    }
  }

  #line(from, to) {
    this.pen.beginPath();
    this.pen.moveTo(from[0], from[1]);
    this.pen.lineTo(to[0], to[1]);
    this.pen.stroke();
  }

  colour(i) {
    const slot = this.view.colours && this.frame.labels ? this.frame.labels[i] : 0;
    return slot ? this.palette[(slot - 1) % this.palette.length] ?? this.theme.aloneNumbers : this.theme.aloneNumbers;
  }

  #css(i) { const [r, g, b] = this.colour(i); return `rgb(${r},${g},${b})`; }

  #byColour(n) {
    const groups = new Map();
    for (let i = 0; i < n; i++) {
      const css = this.#css(i);
      if (!groups.has(css)) groups.set(css, []);
      groups.get(css).push(i);
    }
    return groups;
  }

  #trails() {
    const pen = this.pen, length = this.trail.length;
    if (length < 2) return;
    pen.lineWidth = 1.2;
    pen.lineJoin = "round";
    const part = Math.max(1, Math.ceil((length - 1) / FADES));
    for (const [css, members] of this.#byColour(this.frame.n)) {
      pen.strokeStyle = css;
      for (let from = 0; from < length - 1; from += part) {
        pen.globalAlpha = 0.12 + (0.38 * (from + part)) / length;
        pen.beginPath();
        for (const i of members) this.#way(i, from, Math.min(from + part, length - 1));
        pen.stroke();
      }
    }
    pen.globalAlpha = 1;
  }

  #way(i, from, to) {
    for (let k = from; k <= to; k++) {
      const p = this.trail[k], [x, y] = this.toScreen(p[3 * i], p[3 * i + 1], p[3 * i + 2]);
      this.pen[k === from ? "moveTo" : "lineTo"](x, y);
    }
  }

  get radius() { return Math.min(Math.max(7 * (40 / this.frame.n) ** 0.3, 2.2), 7); }

  #dots(n) {
    const pen = this.pen, r = this.radius, isDeep = !this.camera.isFlat;
    const order = Array.from({ length: n }, (_, i) => i);
    if (isDeep) order.sort((a, b) => this.seen[a][2] - this.seen[b][2]);
    pen.strokeStyle = this.theme.paper;
    pen.lineWidth = n > 600 ? 0 : 0.8;
    for (const i of order) {
      const [x, y, z] = this.seen[i];
      if (!Number.isFinite(x + y)) continue;
      const near = isDeep ? Math.min(Math.max((z + 1) / 2, 0), 1) : 1;
      pen.globalAlpha = isDeep ? 0.35 + 0.65 * near : 0.95;
      pen.fillStyle = this.#css(i);
      pen.beginPath();
      pen.arc(x, y, r * (isDeep ? 0.65 + 0.4 * near : 1), 0, 2 * Math.PI);
      pen.fill();
      if (pen.lineWidth && n <= 600) pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  #cloud(n) {
    const colours = new Float32Array(3 * n);
    for (let i = 0; i < n; i++) { const c = this.colour(i); for (let k = 0; k < 3; k++) colours[3 * i + k] = c[k] / 255; }
    const scale = [(2 * this.scale) / this.width, (2 * this.scale) / this.height];
    this.cloud.draw(this.points, colours, this.camera.matrix, scale, 2 * this.radius * this.ratio);
  }

  #hull() {
    if (this.model.isSphere || this.model.settings.d < 2 || this.frame.n > MOST_ON_CANVAS) return;
    const points = this.seen.filter(([x, y]) => Number.isFinite(x + y));
    const corners = points.length > 2 ? hull(points) : [];
    if (corners.length < 3) return;
    const pen = this.pen;
    pen.beginPath();
    for (const [k, i] of corners.entries()) pen[k ? "lineTo" : "moveTo"](points[i][0], points[i][1]);
    pen.closePath();
    pen.fillStyle = pen.strokeStyle = this.theme.accent;
    pen.globalAlpha = 0.07;
    pen.fill();
    pen.globalAlpha = 0.45;
    pen.lineWidth = 1;
    pen.stroke();
    pen.globalAlpha = 1;
  }

  #planes() {
    if (!this.planes || this.frame.d > 3) return;
    const pen = this.pen, reach = 1.25 * (this.extent ?? 1);
    const normal = [...this.planes.normal, 0, 0].slice(0, 3), [u, v] = basisAcross(normal, this.frame.d);
    pen.strokeStyle = pen.fillStyle = this.theme.bad;
    for (const level of this.planes.levels) {
      const corner = (a, b) => this.toScreen(...[0, 1, 2].map((k) => level * normal[k] + reach * (a * u[k] + b * v[k])));
      pen.globalAlpha = 0.55;
      pen.lineWidth = 1.2;
      if (this.frame.d === 2) { this.#line(corner(-1, 0), corner(1, 0)); continue; }
      pen.beginPath();
      for (const [k, [a, b]] of [[-1, -1], [1, -1], [1, 1], [-1, 1]].entries()) pen[k ? "lineTo" : "moveTo"](...corner(a, b).slice(0, 2));
      pen.closePath();
      pen.stroke();
      pen.globalAlpha = 0.08;
      pen.fill();
    }
    pen.globalAlpha = 1;
  }

  #centres() {
    const pen = this.pen;
    pen.strokeStyle = this.theme.ink;
    pen.lineWidth = 1.4;
    for (const i of this.model.centres ?? []) {
      if (i >= this.frame.n) continue;
      pen.beginPath();
      pen.arc(this.seen[i][0], this.seen[i][1], this.radius + 4, 0, 2 * Math.PI);
      pen.stroke();
    }
  }

  #attended() {
    if (this.hovered === null || this.hovered >= this.frame.n) return;
    const pen = this.pen, from = this.seen[this.hovered];
    const weights = this.row && this.row.token === this.hovered ? this.row.weights : [];
    const most = Math.max(...weights.map(([, weight]) => weight), 1e-9);
    pen.strokeStyle = this.theme.weight;
    for (const [j, weight] of weights) {
      if (j >= this.frame.n) continue;
      pen.globalAlpha = 0.15 + (0.75 * weight) / most;
      pen.lineWidth = 0.6 + (2.6 * weight) / most;
      this.#line(from, this.seen[j]);
    }
    pen.globalAlpha = 1;
    pen.lineWidth = 2;
    pen.strokeStyle = this.theme.ink;
    pen.beginPath();
    pen.arc(from[0], from[1], this.radius + 2.5, 0, 2 * Math.PI);
    pen.stroke();
  }

  nearest(x, y) {
    let best = null, least = REACH ** 2;
    for (const [i, [a, b, depth]] of (this.seen ?? []).entries()) {
      const distance = (a - x) ** 2 + (b - y) ** 2 - (this.camera.isFlat ? 0 : 4 * depth);
      if (distance < least) { least = distance; best = i; }
    }
    return best;
  }

  #listen() {
    let held = null;
    const touches = new Map();
    this.root.addEventListener("pointerdown", (event) => {
      if (event.target.closest("button")) return;
      held = [event.clientX, event.clientY];
      touches.set(event.pointerId, held);
      this.root.setPointerCapture(event.pointerId);
    });
    this.root.addEventListener("pointermove", (event) => {
      if (touches.size === 2 && touches.has(event.pointerId)) {
        this.#pinch(touches, event);
      } else if (held) {
        this.camera.turn((event.clientX - held[0]) / 160, (event.clientY - held[1]) / 160);
        held = [event.clientX, event.clientY];
        touches.set(event.pointerId, held);
        this.onView();
        this.paint();
      } else this.#hover(event);
    });
    const release = (event) => { touches.delete(event.pointerId); held = null; };
    this.root.addEventListener("pointerup", release);
    this.root.addEventListener("pointercancel", release);
    this.root.addEventListener("pointerleave", () => this.#point(null));
    this.root.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoomBy(Math.exp(-event.deltaY / 600));
    }, { passive: false });
  }

  #pinch(touches, event) {
    const between = () => { const [a, b] = [...touches.values()]; return Math.hypot(a[0] - b[0], a[1] - b[1]) || 1; };
    const before = between();
    touches.set(event.pointerId, [event.clientX, event.clientY]);
    this.zoomBy(between() / before);
  }

  zoomBy(factor) {
    this.camera.zoom = Math.min(Math.max(this.camera.zoom * factor, 0.05), 1e6);
    this.onView();
    this.paint();
  }

  #hover(event) {
    const box = this.root.getBoundingClientRect();
    this.#point(this.nearest(event.clientX - box.left, event.clientY - box.top));
  }

  #point(token) {
    if (token === this.hovered) return;
    this.hovered = token;
    this.row = null;
    this.onHover(token);
    this.paint();
  }

  #resize() {
    this.ratio = Math.min(window.devicePixelRatio || 1, 2);
    [this.width, this.height] = [this.root.clientWidth, this.root.clientHeight];
    for (const canvas of [this.canvas, this.cloud.canvas]) {
      canvas.width = Math.max(1, Math.round(this.width * this.ratio));
      canvas.height = Math.max(1, Math.round(this.height * this.ratio));
    }
    this.paint();
  }
}

function basisAcross(normal, d) {
  // Two directions across a unit vector; in the plane the second is not used.
  if (d === 2) return [[-normal[1], normal[0], 0], [0, 0, 0]];
  const [a, b, c] = normal, other = Math.abs(a) < 0.7 ? [1, 0, 0] : [0, 1, 0];
  const cross = (p, q) => [p[1] * q[2] - p[2] * q[1], p[2] * q[0] - p[0] * q[2], p[0] * q[1] - p[1] * q[0]];
  const first = cross([a, b, c], other), size = Math.hypot(...first), u = first.map((one) => one / size);
  return [u, cross([a, b, c], u)];
}
