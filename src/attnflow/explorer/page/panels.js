// The panels beside the stage: attention, curves over time, cosines, the spectrum of V.

import { drawHistogram, drawMatrix, drawSeries, drawSpectrum, prepare, shareAt } from "./charts.js";
import { SpectrumHand } from "./spectrum.js";
import { brief, numberOf, percent, timeText } from "./numbers.js";

const $ = (id) => document.getElementById(id);
const MAX_POINTS = 3000; // of a curve

export class Panels {
  constructor(theme) {
    this.theme = theme;
    this.canvases = Object.fromEntries(["attention", "series", "cosines", "spectrum"].map((name) => [name, $(name)]));
    this.onSeek = () => {};
    this.onPoint = () => {};
    this.token = this.pointed = this.bin = null;
    this.restart({ eigenvalues: [], settings: {}, height: "energy" });
    this.#listen();
    new ResizeObserver(() => this.paint()).observe($("panels"));
  }

  restart(model) {
    this.series = [];
    this.attention = null;
    this.cosines = [];
    this.now = null;
    this.total = 1;
    this.change(model, Infinity);
  }

  change(model, time) {
    this.model = model;
    this.eigenvalues = (model.eigenvalues ?? []).map((head) => head.map((one) => one.map(Number)));
    this.series = this.series.filter((one) => one.time <= time);
    $("height-name").textContent = model.height ?? "energy";
    $("distance").textContent = model.closeness === undefined ? "" : `within ${brief(model.closeness)} of each other`;
    if (this.attention) this.showAttention(this.attention); // attention of a changed model may come before its description
    this.paint();
  }

  add({ frame, time, clusters, height, cosines, eigenvalues }) {
    const last = this.series.at(-1);
    if (last && last.frame >= frame) this.series = this.series.filter((one) => one.frame !== frame);
    this.series.push({ frame, time: time ?? -Infinity, clusters, height: numberOf(height) });
    if (last && last.frame > frame) this.series.sort((a, b) => a.frame - b.frame);
    const isKept = (_, i) => i % 2 === 0 || i === this.series.length - 1;
    if (this.series.length > MAX_POINTS) this.series = this.series.filter(isKept);
    this.cosines = cosines;
    this.now = this.series.find((one) => one.frame === frame) ?? null;
    this.#paintSeries();
    this.#paintCosines();
    if (eigenvalues) this.#paintSpectrum(eigenvalues);
  }

  setPlace({ frame, share }) {
    // The number of frames follows from the index of this one and its share.
    if (this.model.logTime && share > 0) this.total = frame / share;
  }

  dragEigenvalues(change, isLive) {
    // Let eigenvalues of V be dragged where the setting V consists of them.
    const paint = (eigenvalues, scale) => this.#paintSpectrum(eigenvalues, scale);
    this.hand = new SpectrumHand(this.canvases.spectrum, { model: () => this.model, paint, change, isLive });
  }

  showAttention(message) {
    this.attention = message;
    const facts = [];
    const { head } = this.model.settings;
    if (Number.isInteger(head)) facts.push(`head ${head}`);
    if (message.heads > 1) facts.push(`mean of ${message.heads} heads`);
    if (message.n > message.side) facts.push(`${message.side} of ${message.n} rows`);
    $("attention-title").textContent = this.model.isLayered ? `Attention, layer ${Math.max(message.index, 1)}` : "Attention P(t)";
    $("attention-facts").textContent = facts.join(", ");
    this.#paintAttention();
  }

  mark(token) {
    // Mark the row of the token that is chosen on the stage.
    this.token = token;
    this.#paintAttention();
  }

  paint() {
    this.#paintAttention();
    this.#paintSeries();
    this.#paintCosines();
    this.#paintSpectrum();
  }

  #paintSpectrum(eigenvalues = this.eigenvalues, scale = null) {
    // The spectrum of the model, or of the layer on display; an eigenvalue that is being dragged stays under the pointer.
    if (this.hand?.isHolding && !scale) return;
    this.eigenvalues = eigenvalues;
    $("spectrum-hint").textContent = this.hand?.handles ? "drag a dot to change V" : "";
    drawSpectrum(this.canvases.spectrum, this.theme, eigenvalues.flat(), this.model.isLayered ? "Each layer has its own V." : "V depends on time.", scale);
  }

  #paintAttention() {
    if (!this.attention) return prepare(this.canvases.attention, this.theme);
    const { side, n } = this.attention, row = this.token === null ? null : Math.floor((this.token * side) / n);
    return drawMatrix(this.canvases.attention, this.theme, this.attention, row);
  }

  #share(point) {
    // The share of the time slider: linear in time, by its logarithm, or by states of a coalescing run.
    if (this.model.logTime) return Math.min(point.frame / Math.max(this.total, this.series.at(-1)?.frame ?? 1, 1), 1);
    const end = this.#end;
    if (this.model.settings.spacing !== "log") return point.time / end;
    return Math.log1p((1e4 * point.time) / end) / Math.log1p(1e4);
  }

  get #end() { return Math.max(this.model.settings.end ?? 1, this.series.at(-1)?.time ?? 0); }

  #paintSeries() {
    const most = Math.max(1, ...this.series.map((one) => one.clusters)), { theme, model } = this;
    const highest = Math.max(1, ...this.series.map((one) => one.height).filter(Number.isFinite)); // energy exceeds 1 if beta < 0
    const measures = [(one) => one.clusters / most, (one) => Math.min(Math.max(one.height || 0, 0) / highest, 1)];
    const tops = [most < 1e4 ? String(most) : `${Math.round(most / 1000)}k`, brief(highest)], colours = [theme.accent, theme.bad], sides = ["left", "right"];
    const curves = measures.map((measure, k) => ({
      points: this.series.map((one) => [this.#share(one), measure(one)]),
      colour: colours[k],
      top: tops[k],
      side: sides[k],
    }));
    const shown = this.pointed ?? this.now;
    const cursor = shown && { x: this.#share(shown), ys: measures.map((measure) => measure(shown)) };
    const end = `${model.isLayered ? "layer" : "t ="} ${brief(this.#end)}${model.settings.spacing === "log" ? " (log)" : ""}`;
    const last = model.logTime ? "t (one step per state)" : end;
    drawSeries(this.canvases.series, theme, { curves, cursor, ends: ["0", last] });
    this.#showNumbers(shown);
  }

  #showNumbers(shown) {
    const height = shown?.height ?? null, at = shown ? timeText(shown.time, this.model.logTime) : "";
    $("clusters-now").textContent = shown ? shown.clusters : "";
    const digits = height === null ? "" : this.model.isLayered ? height.toFixed(2) : brief(height);
    $("height-now").textContent = `${this.model.isEstimated ? "≈ " : ""}${digits}`;
    const second = height === null ? "" : `, ${this.model.height} ${brief(height)}`;
    const words = shown ? `At ${this.model.isLayered ? "layer" : "time"} ${at}: ${shown.clusters} clusters${second}.` : "";
    const title = `Number of clusters and ${this.model.height ?? "energy"} over time.`;
    this.canvases.series.setAttribute("aria-label", `${title} ${words}`);
  }

  #paintCosines() {
    const shares = this.cosines ?? [], low = this.bin === null ? null : -1 + (2 * this.bin) / shares.length;
    const isPointed = low !== null && shares.length > 0;
    $("cosines-now").textContent = isPointed ? `${percent(shares[this.bin])} near ${brief(low + 1 / shares.length)}` : "";
    drawHistogram(this.canvases.cosines, this.theme, shares, this.bin);
  }

  #listen() {
    const { series, attention, cosines } = this.canvases;
    const seek = (event) => this.onSeek(shareAt(series, event));
    series.addEventListener("pointerdown", (event) => { series.setPointerCapture(event.pointerId); seek(event); });
    series.addEventListener("pointermove", (event) => {
      if (event.buttons) { this.pointed = null; return seek(event); }
      const share = shareAt(series, event), far = (one) => Math.abs(this.#share(one) - share);
      this.pointed = this.series.reduce((best, one) => (!best || far(one) < far(best) ? one : best), null);
      return this.#paintSeries();
    });
    series.addEventListener("pointerleave", () => { this.pointed = null; this.#paintSeries(); });
    attention.addEventListener("pointermove", (event) => this.#pointAt(event));
    attention.addEventListener("pointerleave", () => {
      $("attention-now").textContent = "";
      this.onPoint(null, null);
    });
    cosines.addEventListener("pointermove", (event) => {
      const count = this.cosines.length;
      this.bin = count ? Math.min(Math.floor(shareAt(cosines, event) * count), count - 1) : null;
      this.#paintCosines();
    });
    cosines.addEventListener("pointerleave", () => { this.bin = null; this.#paintCosines(); });
  }

  #pointAt(event) {
    if (!this.attention) return;
    const box = this.canvases.attention.getBoundingClientRect(), size = Math.min(box.width, box.height);
    const { side, n, weights } = this.attention;
    const [i, j] = [event.clientY - box.top, event.clientX - box.left].map((at) => Math.floor((at / size) * side));
    if (i < 0 || j < 0 || i >= side || j >= side) return;
    const token = (k) => Math.floor(((k + 0.5) * n) / side), name = (k) => this.model.labels?.[token(k)] ?? token(k) + 1;
    $("attention-now").textContent = `${name(i)} → ${name(j)}: ${percent(weights[i * side + j])}`;
    this.onPoint(token(i), token(j));
  }
}
