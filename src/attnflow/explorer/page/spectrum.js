// Eigenvalues of V that can be dragged: real ones along the axis, a complex pair in the plane. A drag is a change of the setting V.

import { spectrumScale } from "./charts.js";

const REACH = 12; // pixels within which the pointer takes an eigenvalue
const SECONDS_BETWEEN_CHANGES = 0.15;
const MAX_HANDLES = 16; // eigenvalues that can be told apart in the panel
const LISTS = ["diagonal", "eigenvalues", "eigenvalues-random"];

export function handlesOf(word, d) {
  // The eigenvalues that a word of V gives, as {name, numbers, values: [[re, im], ...]}; null for a matrix given otherwise.
  const [name, tail = ""] = (word ?? "").split(":"), given = tail === "" ? [] : tail.split(",").map(Number);
  if (["identity", "minus-identity"].includes(name)) return listed("diagonal", new Array(d).fill(name === "identity" ? 1 : -1));
  if (LISTS.includes(name)) return listed(name, given);
  if (name === "jordan") return { name, numbers: [given[0] ?? 1], values: [[given[0] ?? 1, 0]] };
  if (name !== "pair") return null;
  const [a, b] = [given[0] ?? 0.5, given[1] ?? 1];
  return { name, numbers: [a, b], values: [[a, b], [a, -b]] };
}

function listed(name, numbers) {
  const isDrawn = numbers.length > 0 && numbers.length <= MAX_HANDLES && numbers.every(Number.isFinite);
  return isDrawn ? { name, numbers, values: numbers.map((one) => [one, 0]) } : null;
}

export function moved({ name, numbers }, index, [re, im]) {
  // The handles after one of them was dragged to another place.
  const after = name === "pair" ? [re, Math.abs(im)] : numbers.map((one, k) => (k === index ? re : one));
  return handlesOf(`${name}:${after.join(",")}`, after.length);
}

export const wordOf = ({ name, numbers }) => `${name}:${numbers.join(",")}`;

export function spectrumOf({ name, numbers, values }, d) {
  // All d eigenvalues, as the server computes them.
  if (name === "jordan") return new Array(d).fill(values[0]);
  return name === "pair" ? [...values, ...new Array(Math.max(d - 2, 0)).fill([numbers[0] / 2, 0])] : values;
}

export class SpectrumHand {
  #held = null; // {index, handles, scale}
  #sent = -Infinity;

  constructor(canvas, { model, paint, change, isLive }) {
    // `paint(eigenvalues, scale)` draws while a dot is held; `change(word)` changes V; `isLive` tells whether during the drag.
    Object.assign(this, { canvas, model, paint, change, isLive });
    canvas.addEventListener("pointerdown", (event) => this.#grab(event));
    canvas.addEventListener("pointermove", (event) => (this.#held ? this.#drag(event) : this.#point(event)));
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => this.#drop());
  }

  get isHolding() { return this.#held !== null; }

  get handles() {
    const { settings, isLayered, eigenvalues } = this.model();
    return isLayered || !eigenvalues?.length ? null : handlesOf(settings.value, settings.d);
  }

  #nearest(event) {
    const { handles, canvas } = this;
    if (!handles) return null;
    const { left, top } = canvas.getBoundingClientRect(), { settings } = this.model();
    const scale = spectrumScale(canvas.clientWidth, canvas.clientHeight, spectrumOf(handles, settings.d));
    const away = handles.values.map(([re, im]) => Math.hypot(event.clientX - left - scale.x - scale.unit * re, event.clientY - top - scale.y + scale.unit * im));
    const index = away.indexOf(Math.min(...away));
    return away[index] <= REACH ? { index, handles, scale } : null;
  }

  #point(event) { this.canvas.style.cursor = this.#nearest(event) ? "grab" : ""; }

  #grab(event) {
    this.#held = this.#nearest(event);
    if (this.#held) this.canvas.setPointerCapture(event.pointerId);
  }

  #drag(event) {
    const { index, scale, handles } = this.#held, { left, top } = this.canvas.getBoundingClientRect();
    const digits = 10 ** (2 - Math.floor(Math.log10(scale.across))), round = (one) => Math.round(one * digits) / digits;
    const inside = (at, most) => Math.min(Math.max(at, -most), most);
    const re = round(inside((event.clientX - left - scale.x) / scale.unit, scale.box.w / 2 / scale.unit));
    const im = round(inside((scale.y - event.clientY + top) / scale.unit, scale.box.h / 2 / scale.unit));
    this.#held = { index, scale, handles: moved(handles, index, [re, im]), isMoved: true };
    this.canvas.style.cursor = "grabbing";
    this.paint([spectrumOf(this.#held.handles, this.model().settings.d)], scale);
    if (this.isLive() && event.timeStamp - this.#sent > 1000 * SECONDS_BETWEEN_CHANGES) this.#send(event.timeStamp);
  }

  #drop() {
    const held = this.#held;
    if (held?.isMoved) this.#send(-Infinity);
    this.#held = null;
    this.canvas.style.cursor = "";
  }

  #send(now) {
    this.#sent = now;
    this.change(wordOf(this.#held.handles));
  }
}
