// The strip over beta: small pictures of the end states of runs that differ in beta only; a click opens that run.

import { brief } from "./numbers.js";

const SIZE = 58, DOT = 2.2; // pixels of a picture, and of a dot in it
const MARGIN = 0.8; // share of a picture that the tokens take

export class Strip {
  #cells = [];
  #isSphere = true;
  #wasOpened = false; // just now: it is scrolled into sight when it has all cells

  constructor(details, { ask, open, colourOf, theme, onToggle }) {
    // `ask(shown)` asks for the strip, `open(beta)` starts the run with that beta.
    Object.assign(this, { details, ask, open, colourOf, theme, isOffered: false });
    this.grid = details.querySelector(".cells");
    this.note = details.querySelector("p");
    details.addEventListener("toggle", () => { this.#wasOpened = this.isOpen; this.#request(); onToggle(); });
  }

  get isOpen() { return this.details.open; }

  set isOpen(isOpen) { this.details.open = isOpen; }

  restart({ isSphere, logTime, isLayered, steering, settings }) {
    // Another run, or another model.
    this.#isSphere = isSphere;
    this.isOffered = !logTime && !isLayered && !steering && !settings.attention?.startsWith("hardmax") && settings.beta !== undefined;
    this.details.hidden = !this.isOffered || document.body.classList.contains("recorded");
    this.#clear();
    this.#request();
  }

  #clear() {
    this.#cells = [];
    this.grid.replaceChildren();
    this.note.textContent = "";
  }

  #request() {
    if (!this.isOffered) return;
    if (this.isOpen && !this.#cells.length) this.note.textContent = "Computing ...";
    if (!this.isOpen) this.#clear();
    this.ask(this.isOpen);
  }

  show({ cells, beta, isComplete }) {
    this.#cells = cells;
    this.grid.replaceChildren(...cells.map((cell) => this.#button(cell, cell.beta === beta)));
    this.note.textContent = isComplete ? "" : "Computing ...";
    if (isComplete && this.#wasOpened) this.details.scrollIntoView({ block: "nearest" });
    this.#wasOpened &&= !isComplete;
  }

  paint() { for (const [k, button] of [...this.grid.children].entries()) this.#draw(button.querySelector("canvas"), this.#cells[k]); }

  #button(cell, isNow) {
    const button = Object.assign(document.createElement("button"), { type: "button", title: `Open the run with β = ${brief(cell.beta)}` });
    const canvas = document.createElement("canvas"), value = document.createElement("span"), counted = document.createElement("small");
    const clusters = `${cell.clusters} cluster${cell.clusters === 1 ? "" : "s"}`;
    value.textContent = `β ${brief(cell.beta)}`;
    counted.textContent = clusters;
    button.setAttribute("aria-pressed", String(isNow));
    button.setAttribute("aria-label", `β = ${brief(cell.beta)}: ${clusters} at t = ${brief(cell.time)}`);
    button.append(canvas, value, counted);
    button.onclick = () => this.open(cell.beta);
    this.#draw(canvas, cell);
    return button;
  }

  #draw(canvas, { tokens, colours, size }) {
    const ratio = Math.min(window.devicePixelRatio || 1, 2), pen = canvas.getContext("2d"), n = colours.length, d = tokens.length / n;
    canvas.width = canvas.height = SIZE * ratio;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const half = SIZE / 2, unit = MARGIN * half * (this.#isSphere ? size : 1);
    if (this.#isSphere) {
      pen.strokeStyle = this.theme.rule;
      pen.beginPath();
      pen.arc(half, half, MARGIN * half, 0, 2 * Math.PI);
      pen.stroke();
    }
    for (let i = 0; i < n; i++) {
      const y = d > 1 ? tokens[i * d + 1] : 0.8 - (1.6 * (i + 0.5)) / n;
      pen.fillStyle = `rgb(${this.colourOf(colours[i]).join(",")})`;
      pen.beginPath();
      pen.arc(half + unit * tokens[i * d], half - (d > 1 ? unit : half) * y, DOT, 0, 2 * Math.PI);
      pen.fill();
    }
  }
}
