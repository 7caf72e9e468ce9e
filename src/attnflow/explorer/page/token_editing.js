// Tokens placed by hand: in the mode "Move tokens" a dot can be dragged, added or removed, and a run starts from the tokens as placed.

import { axesFor } from "./geometry.js";

const $ = (id) => document.getElementById(id);
const REACH = 1.2; // how far from the middle a token may be dropped, in units of the picture

export class TokenEditing {
  #held = null; // {token, depth, x, y, wasPlaying, point}
  #isAdding = false;
  #isWaiting = false; // for the run after an edit

  constructor(stage, { send, isPlaying, say }) {
    Object.assign(this, { stage, send, isPlaying, say, isOn: false, chosen: null, hasTargets: false });
    $("move-tokens").onclick = () => this.turn(!this.isOn);
    $("add-token").onclick = () => this.#add(!this.#isAdding);
    $("remove-token").onclick = () => this.remove();
    stage.hands = this;
    stage.root.addEventListener("dblclick", (event) => {
      if (this.isOn && !event.target.closest("button")) this.#addAt(...placeOf(stage, event));
    });
  }

  get isHolding() { return this.#held !== null; }

  turn(isOn) {
    this.isOn = isOn;
    this.#add(false);
    this.#choose(null);
    $("move-tokens").setAttribute("aria-pressed", String(isOn));
    $("hand-tools").hidden = !isOn || this.hasTargets;
    this.stage.root.classList.toggle("hands", isOn);
  }

  begin({ labels, steering }) {
    // A run was started: edits are possible again.
    this.#isWaiting = false;
    this.#held = null;
    this.stage.isHeld = false;
    this.#choose(null);
    $("add-token").disabled = Boolean(labels || steering);
    const hadTargets = this.hasTargets;
    this.hasTargets = Boolean(steering);
    if (this.hasTargets !== hadTargets) this.turn(this.hasTargets); // targets can be dragged at once
    this.#add(false);
  }

  refuse() {
    // An edit was refused: the tokens go back to their places.
    this.#isWaiting = false;
  }

  grab(event) {
    // Whether the pointer takes a token, or adds one; otherwise it turns the picture.
    const [x, y] = placeOf(this.stage, event);
    if (!this.isOn || this.#isWaiting || !this.stage.frame) return false;
    if (this.#isAdding) { this.#addAt(x, y); return true; }
    const token = this.stage.nearest(x, y);
    this.#choose(token);
    if (token === null) return false;
    this.#held = { token, depth: this.stage.seenAt(token)[2], x, y, point: null, wasPlaying: this.isPlaying() };
    this.stage.isHeld = true;
    if (this.#held.wasPlaying) this.send({ type: "play", plays: false });
    return true;
  }

  drag(event) {
    const { stage } = this, [x, y] = placeOf(stage, event), held = this.#held;
    if (held.point === null && Math.hypot(x - held.x, y - held.y) < 3) return; // pixels: a click
    held.point = placeInSpace(stage, x, y, held.depth, held.token);
    stage.move(held.token, held.point);
  }

  drop() {
    const held = this.#held;
    this.#held = null;
    this.stage.isHeld = false;
    if (!held) return;
    if (held.point) this.#edit({ move: { token: held.token, to: held.point } }, held.wasPlaying);
    else if (held.wasPlaying) this.send({ type: "play", plays: true });
  }

  remove() {
    const token = this.stage.hovered ?? this.chosen;
    if (this.isOn && token !== null && !this.#isWaiting) this.#edit({ remove: token }, this.isPlaying());
  }

  #addAt(x, y) {
    if (this.#isWaiting) return;
    this.#add(false);
    this.#edit({ add: placeInSpace(this.stage, x, y, 1, null) }, this.isPlaying());
  }

  #add(isAdding) {
    this.#isAdding = isAdding;
    $("add-token").setAttribute("aria-pressed", String(isAdding));
  }

  #choose(token) {
    this.chosen = token;
    $("remove-token").disabled = token === null || this.hasTargets;
  }

  #edit(edit, plays) {
    this.#isWaiting = true;
    this.send({ type: "tokens", ...edit, plays });
    this.say(this.hasTargets ? "A control to the targets as placed is constructed." : "The run starts again at t = 0 from the tokens as placed.");
  }
}

function placeOf({ root }, event) {
  const { left, top } = root.getBoundingClientRect();
  return [event.clientX - left, event.clientY - top];
}

export function placeInSpace(stage, x, y, depth, token) {
  // The point of R^d that is drawn at (x, y). On a sphere it lies on the sphere, on the side of `depth`; in space the depth stays.
  const { camera, extents, frame, model } = stage, { d } = frame;
  const inside = (one) => Math.min(Math.max(one, -REACH / Math.min(camera.zoom, 1)), REACH / Math.min(camera.zoom, 1));
  let seen = [inside((x - stage.originX) / stage.scale), inside((stage.originY - y) / stage.scale), 0];
  if (model.isSphere && d === 3) seen = onFront(seen, depth);
  else if (token !== null && d > 2) seen[2] = depth;
  const m = camera.matrix, shown = [0, 1, 2].map((k) => extents[k] * (m[k] * seen[0] + m[3 + k] * seen[1] + m[6 + k] * seen[2]));
  const point = d <= 3 ? shown.slice(0, d) : among(stage, shown, token);
  return model.isSphere ? scaled(point) : point;
}

function onFront([u, v], depth) {
  const radius = Math.hypot(u, v);
  return radius < 1 ? [u, v, (depth < 0 ? -1 : 1) * Math.sqrt(1 - radius ** 2)] : [u / radius, v / radius, 0];
}

function among({ frame, chosen, principal }, shown, token) {
  // In more than three dimensions only the three coordinates that are drawn change.
  const { d, tokens } = frame, axes = axesFor(d, chosen, principal);
  const point = token === null ? new Array(d).fill(0) : Array.from(tokens.subarray(token * d, (token + 1) * d));
  const by = axes.map((row, k) => shown[k] - row.reduce((sum, one, j) => sum + one * point[j], 0));
  return point.map((one, j) => one + axes.reduce((sum, row, k) => sum + by[k] * row[j], 0));
}

function scaled(point) {
  const length = Math.hypot(...point);
  return length > 0 ? point.map((one) => one / length) : point.map((_, j) => (j ? 0 : 1));
}
