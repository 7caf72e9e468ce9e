// A pen that draws SVG: it has the methods of a 2D context that the stage uses, and keeps the drawing as text.

const short = (x) => String(Math.round(100 * x) / 100);
const escaped = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
const ANCHORS = { left: "start", start: "start", center: "middle", right: "end", end: "end" };
const BASELINES = { middle: "central", top: "hanging", hanging: "hanging", bottom: "text-after-edge" };

export class SvgPen {
  #parts = [];
  #definitions = [];
  #path = [];
  #saved = [];

  constructor(width, height, paper) {
    [this.width, this.height, this.paper] = [width, height, paper];
    Object.assign(this, { strokeStyle: "#000", fillStyle: "#000", lineWidth: 1, globalAlpha: 1, lineJoin: "miter", lineCap: "butt" });
    Object.assign(this, { font: "12px sans-serif", textAlign: "left", textBaseline: "alphabetic", dash: [] });
  }

  setTransform() {} // the drawing has the coordinates of the page
  clearRect() {}
  setLineDash(dash) { this.dash = dash; }
  measureText(text) { return { width: 0.55 * (parseFloat(this.font.match(/[\d.]+px/)) || 12) * text.length }; }

  save() { this.#saved.push({ ...this }); }
  restore() { Object.assign(this, this.#saved.pop() ?? {}); }

  beginPath() { this.#path = []; }
  moveTo(x, y) { this.#path.push(`M${short(x)} ${short(y)}`); }
  lineTo(x, y) { this.#path.push(`${this.#path.length ? "L" : "M"}${short(x)} ${short(y)}`); }
  closePath() { this.#path.push("Z"); }
  rect(x, y, w, h) { this.#path.push(`M${short(x)} ${short(y)}h${short(w)}v${short(h)}h${short(-w)}Z`); }
  quadraticCurveTo(a, b, x, y) { this.#path.push(`Q${[a, b, x, y].map(short).join(" ")}`); }
  bezierCurveTo(...places) { this.#path.push(`C${places.map(short).join(" ")}`); }
  arc(x, y, r, from, to) { this.ellipse(x, y, r, r, 0, from, to); }

  ellipse(x, y, a, b, turn, from, to) {
    const at = (angle) => {
      const [c, s] = [a * Math.cos(angle), b * Math.sin(angle)];
      return [x + c * Math.cos(turn) - s * Math.sin(turn), y + c * Math.sin(turn) + s * Math.cos(turn)];
    };
    const middle = (from + to) / 2, shape = `${short(a)} ${short(b)} ${short((180 * turn) / Math.PI)} 0 ${to > from ? 1 : 0}`;
    this[this.#path.length ? "lineTo" : "moveTo"](...at(from));
    for (const angle of [middle, to]) this.#path.push(`A${shape} ${at(angle).map(short).join(" ")}`); // two halves, since SVG has no arc of a whole circle
  }

  createRadialGradient(...circles) {
    const [fx, fy, fr, x, y, r] = circles.map(short);
    return this.#gradient("radialGradient", `cx="${x}" cy="${y}" r="${r}" fx="${fx}" fy="${fy}" fr="${fr}"`);
  }

  createLinearGradient(...ends) {
    const [x1, y1, x2, y2] = ends.map(short);
    return this.#gradient("linearGradient", `x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}"`);
  }

  #gradient(kind, places) {
    const stops = [], id = `g${this.#definitions.length}`;
    this.#definitions.push(() => `<${kind} id="${id}" gradientUnits="userSpaceOnUse" ${places}>${stops.join("")}</${kind}>`);
    return { addColorStop: (at, colour) => stops.push(`<stop offset="${at}" stop-color="${escaped(colour)}"/>`), toString: () => `url(#${id})` };
  }

  get #opacity() { return this.globalAlpha < 1 ? ` opacity="${Math.round(1000 * this.globalAlpha) / 1000}"` : ""; }

  stroke() {
    if (!this.#path.length) return;
    const dash = this.dash.length ? ` stroke-dasharray="${this.dash.join(" ")}"` : "";
    const line = `stroke="${escaped(this.strokeStyle)}" stroke-width="${short(this.lineWidth)}" stroke-linejoin="${this.lineJoin}" stroke-linecap="${this.lineCap}"`;
    this.#parts.push(`<path d="${this.#path.join("")}" fill="none" ${line}${dash}${this.#opacity}/>`);
  }

  fill() {
    if (this.#path.length) this.#parts.push(`<path d="${this.#path.join("")}" fill="${escaped(this.fillStyle)}"${this.#opacity}/>`);
  }

  fillRect(x, y, w, h) {
    const place = `x="${short(x)}" y="${short(y)}" width="${short(w)}" height="${short(h)}"`;
    this.#parts.push(`<rect ${place} fill="${escaped(this.fillStyle)}"${this.#opacity}/>`);
  }

  strokeText(text, x, y) { this.#text(text, x, y, `fill="none" stroke="${escaped(this.strokeStyle)}" stroke-width="${short(this.lineWidth)}" stroke-linejoin="round"`); }
  fillText(text, x, y) { this.#text(text, x, y, `fill="${escaped(this.fillStyle)}"`); }

  #text(text, x, y, colour) {
    const place = `text-anchor="${ANCHORS[this.textAlign] ?? "start"}" dominant-baseline="${BASELINES[this.textBaseline] ?? "auto"}"`;
    this.#parts.push(`<text x="${short(x)}" y="${short(y)}" style="font: ${escaped(this.font)}" ${place} ${colour}${this.#opacity}>${escaped(text)}</text>`);
  }

  get text() {
    const size = `width="${this.width}" height="${this.height}" viewBox="0 0 ${this.width} ${this.height}"`;
    const defined = this.#definitions.map((one) => one()).join("");
    const ground = `<rect width="${this.width}" height="${this.height}" fill="${escaped(this.paper)}"/>`;
    return `<svg xmlns="http://www.w3.org/2000/svg" ${size}><defs>${defined}</defs>${ground}\n${this.#parts.join("\n")}\n</svg>\n`;
  }
}
