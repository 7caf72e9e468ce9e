// The stage: positions of the tokens on the screen. Background, shapes and marks are drawn by their own files.

import { Camera, axesFor, extentsOf, spread, toSpace } from "./geometry.js";
import { drawAttentionLines } from "./attention_lines.js";
import { drawBackground } from "./background.js";
import { History } from "./history.js";
import { drawAttended, drawCentres, drawClusters, drawDots, drawLabels, drawTrails, shade } from "./marks.js";
import { lowered } from "./numbers.js";
import { listen } from "./pointer.js";
import { PointCloud } from "./points.js";
import { drawShapes } from "./shapes.js";

const MAX_CANVAS_TOKENS = 2000; // more are drawn by WebGL
const TRAIL_FRAMES = 60, MAX_TRAILED_TOKENS = 1000;
const POINTER_PIXELS = 14, PIXELS_PER_RADIAN = 160; // reach of the pointer; of a drag that turns the picture

export class Stage {
  #order = new Uint32Array(0);
  #shades = new Map();
  #isScheduled = false;
  #isWidening = false;
  #groups = null;
  #colours = new Uint8Array(0); // red, green, blue and an unused byte for every dot of a cloud
  #stride = 0; // frames between the last two that were shown
  #origin = { scale: 1, x: 0, y: 0 }; // scale and origin of the picture that is being drawn

  constructor(root, theme) {
    this.root = root;
    this.theme = theme;
    this.canvas = root.querySelector("#drawing, .drawing");
    this.pen = this.canvas.getContext("2d");
    this.cloud = new PointCloud(root.querySelector("#points, .points"));
    this.camera = new Camera();
    this.history = new History(TRAIL_FRAMES);
    this.view = { trails: true, hull: true, centres: true, colours: true, lines: true };
    this.chosen = [0, 1, 2];
    this.points = this.seen = new Float32Array(0);
    this.at = new Float32Array(3);
    this.hovered = this.partner = null;
    this.beside = null; // a stage with which this one is compared, on the same scale
    this.hands = null; // what moves tokens by hand, if anything does
    this.isHeld = false; // whether a token is being moved: the axes stay
    this.onHover = () => {};
    this.onView = () => {};
    this.restart({ isSphere: true, settings: { d: 3 }, centres: [] }, []);
    listen(this);
    new ResizeObserver(() => this.#resize()).observe(root);
    this.#resize();
  }

  restart(model, palette, keepsCamera = false) {
    this.model = model;
    this.frame = this.planes = this.row = this.principal = this.attention = null;
    this.spreads = null;
    this.extents = [1, 1, 1];
    this.history.clear();
    this.setPalette(palette);
    this.isFresh = !keepsCamera;
    if (!keepsCamera) this.camera.reset(model.settings.d);
  }

  setPalette(palette) {
    this.palette = palette;
    this.#shades.clear();
    this.repaint();
  }

  show(frame) {
    // A jump in time leaves no trail: successive frames usually have equal distances.
    const stride = this.frame?.run === frame.run ? frame.index - this.frame.index : -1;
    const isNext = stride >= 0 && stride <= 8 * Math.max(this.#stride, 5);
    this.#stride = stride;
    this.frame = frame;
    this.#place();
    if (!isNext) this.history.clear();
    this.history.add(this.points);
    if (this.isFresh) this.#frameArc();
    this.isFresh = false;
    this.paint();
  }

  #place() {
    const { frame } = this;
    if (this.points.length !== 3 * frame.n) {
      this.points = new Float32Array(3 * frame.n);
      this.seen = new Float32Array(3 * frame.n);
    }
    toSpace(frame, axesFor(frame.d, this.chosen, this.principal), this.points);
    if (!this.model.isSphere && !this.isHeld) this.#widen();
    if (frame.d > 1) return;
    this.extents[1] = 1;
    for (let i = 0; i < frame.n; i++) this.points[3 * i + 1] = 0.75 * (1 - (2 * (i + 0.5)) / frame.n);
  }

  move(token, point) {
    // Show one token of the frame elsewhere.
    const { frame } = this, tokens = Float32Array.from(frame.tokens);
    tokens.set(point, token * frame.d);
    this.frame = { ...frame, tokens };
    this.history.clear();
    this.#place();
    this.repaint();
  }

  #widen() {
    // Axes only grow, a part of the way in each frame, so that nothing jumps; a paused picture continues until all
    // tokens fit.
    const count = Math.min(this.frame.d, 3);
    const clouds = [this.points, ...(this.beside?.frame ? [this.beside.points] : [])];
    const now = [0, 1, 2].map((k) => (k < count ? 1.05 * Math.max(...clouds.map((points) => spread(points, k))) : 0));
    if (this.spreads === null) this.spreads = now.map((one, k) => (k < count ? Math.max(...now) : one));
    else this.spreads = this.spreads.map((one, k) => (now[k] > 1.01 * one ? one + 0.15 * (now[k] - one) : one));
    this.extents = extentsOf(this.spreads);
    if (this.#isWidening || !now.some((one, k) => one > 1.01 * this.spreads[k])) return;
    this.#isWidening = true;
    requestAnimationFrame(() => { this.#isWidening = false; if (this.frame) this.#place(); this.repaint(); });
  }

  setAxes(chosen, principal) {
    this.chosen = chosen;
    this.principal = principal;
    this.history.clear();
    if (this.frame) { this.spreads = null; this.#place(); this.repaint(); }
  }

  axisName(k) {
    if (this.principal && this.model.settings.d > 3) return `pc ${k + 1}`;
    return `x${lowered(this.model.settings.d > 3 ? this.chosen[k] + 1 : k + 1)}`;
  }

  fit() {
    this.camera.center();
    this.spreads = null;
    if (this.frame) { this.#place(); this.#frameArc(); }
    this.repaint();
  }

  #frameArc() {
    // Zoom in on tokens that lie on a short arc of the circle.
    if (!this.model.isSphere || this.frame.d !== 2) return;
    const at = [0, 1].map((k) => this.points.filter((_, i) => i % 3 === k));
    const low = at.map((one) => Math.min(...one)), high = at.map((one) => Math.max(...one));
    const size = Math.max(high[0] - low[0], high[1] - low[1], 0.02);
    if (size > 0.8) return;
    this.camera.zoom = 1.5 / size;
    this.camera.shift = [0, 1].map((k) => (-this.camera.zoom * (low[k] + high[k])) / 2);
  }

  get unit() { return 0.41 * Math.min(this.width, this.height); }

  get scale() { return this.unit * this.camera.zoom; }

  project(x, y, z) {
    // Screen coordinates, into `at`: right, down, and the depth towards the viewer. Allocates nothing.
    const m = this.camera.matrix, e = this.extents, { scale, x: left, y: top } = this.#origin;
    const a = x / e[0], b = y / e[1], c = z / e[2];
    this.at[0] = left + scale * (m[0] * a + m[1] * b + m[2] * c);
    this.at[1] = top - scale * (m[3] * a + m[4] * b + m[5] * c);
    this.at[2] = m[6] * a + m[7] * b + m[8] * c;
  }

  get originX() { return this.width / 2 + this.unit * this.camera.shift[0]; }

  get originY() { return this.height / 2 - this.unit * this.camera.shift[1]; }

  toScreen(x, y, z) { this.project(x, y, z); return [this.at[0], this.at[1], this.at[2]]; }

  seenAt(i) { return [this.seen[3 * i], this.seen[3 * i + 1], this.seen[3 * i + 2]]; }

  repaint() {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    requestAnimationFrame(() => { if (this.#isScheduled) this.paint(); });
  }

  paint() {
    this.#isScheduled = false;
    this.pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.pen.clearRect(0, 0, this.width, this.height);
    this.cloud.clear();
    this.draw(this.pen);
  }

  draw(pen) {
    // Draw with anything that has the methods of a 2D context: the canvas, or a pen that writes a file.
    this.#groups = null;
    Object.assign(this.#origin, { scale: this.scale, x: this.originX, y: this.originY });
    const n = this.frame?.n ?? 0;
    this.isCloud = n > MAX_CANVAS_TOKENS && pen === this.pen && this.cloud.works;
    drawBackground(pen, this);
    if (!this.frame) return;
    this.#projectAll(n);
    if (this.view.hull) drawShapes(pen, this);
    if (this.view.trails && n <= MAX_TRAILED_TOKENS) drawTrails(pen, this);
    if (this.view.lines) drawAttentionLines(pen, this);
    if (this.isCloud) this.#cloud(n); else drawDots(pen, this);
    const taken = []; // places of texts
    if (this.view.colours && !this.model.steering) drawClusters(pen, this, taken);
    if (this.view.centres) drawCentres(pen, this);
    drawLabels(pen, this, taken);
    drawAttended(pen, this);
  }

  #projectAll(n) {
    const { points, seen, at } = this;
    for (let i = 0; i < n; i++) {
      this.project(points[3 * i], points[3 * i + 1], points[3 * i + 2]);
      for (let k = 0; k < 3; k++) seen[3 * i + k] = at[k];
    }
  }

  fromBackToFront() {
    const { frame, seen } = this;
    if (this.#order.length !== frame.n) this.#order = Uint32Array.from({ length: frame.n }, (_, i) => i);
    // The order hardly changes from frame to frame, so that insertion sort is fast.
    const order = this.#order;
    if (this.camera.isFlat) return order;
    for (let k = 1; k < order.length; k++) {
      const one = order[k], depth = seen[3 * one + 2];
      let place = k;
      while (place > 0 && seen[3 * order[place - 1] + 2] > depth) order[place] = order[--place];
      order[place] = one;
    }
    return order;
  }

  partOf(i) { return this.model.parts?.length > 1 && i >= this.model.parts[0] ? 1 : 0; } // number of the token's prompt

  isTarget(i) { return Boolean(this.model.steering) && i >= this.frame.n - this.model.steering.targets; }

  clusterOf(i) { return this.view.colours && this.frame.labels ? this.frame.labels[i] : 0; }

  byCluster() {
    // Tokens of every cluster, by its colour; 0 is the colour of tokens in no cluster. Computed once per picture.
    if (this.#groups) return this.#groups;
    const groups = this.#groups = new Map();
    for (let i = 0; i < this.frame.n; i++) {
      const cluster = this.clusterOf(i), members = groups.get(cluster);
      if (members) members.push(i); else groups.set(cluster, [i]);
    }
    return groups;
  }

  colourOf(cluster) { return (cluster && this.palette[(cluster - 1) % this.palette.length]) || this.theme.aloneNumbers; }

  css(cluster, level) {
    const key = 8 * cluster + level;
    if (!this.#shades.has(key)) this.#shades.set(key, shade(this.colourOf(cluster), this.theme.paperNumbers, level));
    return this.#shades.get(key);
  }

  get radius() {
    const isSmall = Math.min(this.width, this.height) < 420;
    return (isSmall ? 0.8 : 1) * Math.min(Math.max(7 * (40 / this.frame.n) ** 0.3, 2.2), 7);
  }

  #cloud(n) {
    if (this.#colours.length !== 4 * n) this.#colours = new Uint8Array(4 * n);
    const colours = this.#colours, known = [];
    for (let i = 0; i < n; i++) {
      const cluster = this.clusterOf(i), [red, green, blue] = known[cluster] ??= this.colourOf(cluster);
      colours[4 * i] = red; colours[4 * i + 1] = green; colours[4 * i + 2] = blue;
    }
    const scale = [(2 * this.scale) / this.width, (2 * this.scale) / this.height];
    const shift = [(2 * this.originX) / this.width - 1, 1 - (2 * this.originY) / this.height];
    const matrix = this.camera.matrix.map((one, k) => one / this.extents[k % 3]);
    this.cloud.draw(this.points, colours, { matrix, scale, shift, size: 2 * this.radius * this.ratio });
  }

  nearest(x, y) {
    let best = null, least = POINTER_PIXELS ** 2;
    for (let i = 0; i < (this.frame?.n ?? 0); i++) {
      const depth = this.camera.isFlat ? 0 : this.seen[3 * i + 2];
      const distance = (this.seen[3 * i] - x) ** 2 + (this.seen[3 * i + 1] - y) ** 2 - 4 * depth;
      const nearer = this.isTarget(i) ? 40 : 0; // square pixels: a target is taken before the token that has arrived
      if (distance - nearer < least) { least = distance - nearer; best = i; }
    }
    return best;
  }

  point(token, partner = null) {
    // Choose a token, and optionally one that it attends to; null chooses none.
    if (token === this.hovered && partner === this.partner) return;
    const isOther = token !== this.hovered;
    [this.hovered, this.partner] = [token, partner];
    if (isOther) { this.row = null; this.onHover(token); }
    this.repaint();
  }

  setCamera(state) {
    this.camera.state = state;
    this.isFresh = false;
  }

  zoomBy(factor, x = this.width / 2, y = this.height / 2) {
    this.camera.zoomBy(factor, [(x - this.width / 2) / this.unit, (this.height / 2 - y) / this.unit]);
    this.onView();
    this.repaint();
  }

  drag(right, down) {
    // Move a flat picture, or turn one in space, by pixels.
    if (!this.camera.isFlat) return this.turn(right / PIXELS_PER_RADIAN, down / PIXELS_PER_RADIAN);
    this.camera.shift = [this.camera.shift[0] + right / this.unit, this.camera.shift[1] - down / this.unit];
    this.onView();
    return this.repaint();
  }

  turn(right, down) {
    this.camera.turn(right, down);
    this.onView();
    this.repaint();
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
