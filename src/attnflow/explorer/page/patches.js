// The image of a prompt: its patches in the colours of their clusters, and the attention of one of them to all.

import { prepare } from "./charts.js";
import { percent } from "./numbers.js";

const $ = (id) => document.getElementById(id);
const TINT = 0.6, SHADE = 0.8; // opacity of a cluster's colour, and of the largest weight
const GAP = 8; // pixels between the two pictures

export class PatchImage {
  constructor(stage, choose) {
    // `choose` starts a run with another image.
    Object.assign(this, { stage, shown: null });
    $("image-name").onchange = () => choose({ prompt: $("image-name").value });
    $("patches").addEventListener("pointermove", (event) => { const token = this.#at(event); if (token !== null) stage.point(token); });
    $("patches").addEventListener("pointerleave", () => stage.point(null));
    new ResizeObserver(() => this.paint()).observe($("patches"));
  }

  begin({ picture, settings }) {
    $("image-panel").hidden = !picture;
    document.body.classList.toggle("with-image", Boolean(picture));
    if (this.shown?.url !== picture?.url) this.#load(picture);
    this.shown = picture ?? null;
    const names = picture?.names ?? [];
    $("image-name").hidden = names.length < 2;
    $("image-name").replaceChildren(...names.map((name) => new Option(name, name)));
    $("image-name").value = settings.prompt ?? "";
    this.paint();
  }

  #load(picture) {
    this.image = null;
    if (!picture) return;
    const image = new Image();
    image.onload = () => { if (this.shown?.url === picture.url) { this.image = image; this.paint(); } };
    image.src = picture.url;
  }

  paint() {
    if (!this.shown || !this.image) return;
    const { pen, width, height } = prepare($("patches"), this.stage.theme);
    const [left, right] = this.boxes = this.#boxes(width, height);
    for (const box of [left, right]) this.#paintImage(pen, box);
    this.#paintClusters(pen, left);
    const token = this.#source(), row = this.row = token === null ? null : this.#attention(token);
    this.#paintAttention(pen, right, row);
    for (const box of [left, right]) this.#frame(pen, box, token);
    this.#say(token, row);
  }

  #boxes(width, height) {
    // Two pictures side by side, as large as there is room.
    const size = Math.min((width - GAP) / 2 / this.image.width, height / this.image.height);
    const [w, h] = [this.image.width * size, this.image.height * size];
    return [{ x: 0, y: 0, w, h }, { x: w + GAP, y: 0, w, h }];
  }

  #paintImage(pen, { x, y, w, h }) {
    pen.filter = "grayscale(1)"; // so that colours over it can be told apart
    pen.drawImage(this.image, x, y, w, h);
    pen.filter = "none";
  }

  #cell(k, { x, y, w, h }) {
    const { rows, columns } = this.shown, [i, j] = [Math.floor(k / columns), k % columns];
    return [x + (j * w) / columns, y + (i * h) / rows, w / columns, h / rows];
  }

  get #count() { return this.shown.rows * this.shown.columns; }

  #paintClusters(pen, box) {
    // Patches that are alone keep the colours of the image's brightness.
    const { stage, shown: { first } } = this, labels = stage.frame?.labels;
    if (!labels || labels.length < first + this.#count) return;
    pen.globalAlpha = TINT;
    for (let k = 0; k < this.#count; k++) {
      if (!labels[first + k]) continue;
      pen.fillStyle = `rgb(${stage.colourOf(labels[first + k])})`;
      pen.fillRect(...this.#cell(k, box));
    }
    pen.globalAlpha = 1;
  }

  #source() {
    // The token whose attention is drawn: the one that is pointed at, or the first.
    const { stage } = this;
    if (!stage.attention || stage.attention.run !== stage.frame?.run) return null;
    return stage.hovered ?? 0;
  }

  #attention(token) {
    // Weights of a row for every token: of the server's answer, or of the attention image, in blocks if it has such.
    const { stage } = this, { side, n, weights } = stage.attention;
    if (stage.row?.token === token && side < n) {
      const row = new Float32Array(n);
      for (const [j, weight] of stage.row.weights) row[j] = weight;
      return row;
    }
    const block = (k) => Math.floor((k * side) / n), sizes = new Float32Array(side);
    for (let j = 0; j < n; j++) sizes[block(j)]++;
    return Float32Array.from({ length: n }, (_, j) => weights[block(token) * side + block(j)] / sizes[block(j)]);
  }

  #paintAttention(pen, box, row) {
    // Relative to the largest weight of a patch.
    if (!row) return;
    const { first } = this.shown, own = row.slice(first, first + this.#count), most = Math.max(...own) || 1;
    pen.fillStyle = `rgb(${this.stage.theme.weightNumbers})`;
    for (let k = 0; k < this.#count; k++) {
      pen.globalAlpha = (SHADE * own[k]) / most;
      pen.fillRect(...this.#cell(k, box));
    }
    pen.globalAlpha = 1;
  }

  #frame(pen, box, token) {
    // The frame of the patch whose attention is drawn.
    const k = token === null ? -1 : token - this.shown.first;
    if (k < 0 || k >= this.#count) return;
    pen.strokeStyle = this.stage.theme.bad;
    pen.lineWidth = 2;
    pen.strokeRect(...this.#cell(k, box));
  }

  #say(token, row) {
    if (!row) { $("image-now").textContent = ""; return; }
    const { first } = this.shown, onPatches = row.slice(first, first + this.#count).reduce((sum, one) => sum + one, 0);
    const name = this.stage.model?.labels?.[token] ?? token + 1;
    $("image-now").textContent = `attention of ${name}: ${percent(Math.min(onPatches, 1))} to patches`;
  }

  #at(event) {
    // The token of the patch under the pointer.
    if (!this.shown || !this.boxes) return null;
    const { left, top } = $("patches").getBoundingClientRect(), { first, rows, columns } = this.shown;
    for (const { x, y, w, h } of this.boxes) {
      const j = Math.floor(((event.clientX - left - x) / w) * columns), i = Math.floor(((event.clientY - top - y) / h) * rows);
      if (i >= 0 && j >= 0 && i < rows && j < columns) return first + i * columns + j;
    }
    return null;
  }
}
