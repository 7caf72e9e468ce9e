// The panels beside the stage: attention as an image, numbers over time, cosines, the spectrum of V, the verdict.

const PADDING = { left: 34, right: 6, top: 6, bottom: 18 };
const ANSWERS = { agrees: "The run agrees", "not-yet": "Not decided yet", differs: "The run differs", none: "Nothing to compare" };

export class Panels {
  constructor(theme) {
    this.theme = theme;
    this.canvases = Object.fromEntries(["attention", "series", "cosines", "spectrum"].map((name) => [name, document.getElementById(name)]));
    this.restart({ eigenvalues: [], settings: {}, height: "energy", prediction: {} });
    new ResizeObserver(() => this.paint()).observe(document.getElementById("panels"));
  }

  restart(model) {
    this.series = [];
    this.attention = null;
    this.cosines = [];
    this.change(model, Infinity);
    this.#verdict({});
  }

  change(model, time) {
    this.model = model;
    this.series = this.series.filter((one) => one.time <= time);
    document.getElementById("height-name").textContent = model.height ?? "energy";
    this.#prediction(model.prediction ?? {});
    this.paint();
  }

  add(message) {
    const { frame, time, clusters, height } = message;
    this.series = this.series.filter((one) => one.frame !== frame);
    this.series.push({ frame, time: time ?? -Infinity, clusters, height });
    this.series.sort((a, b) => a.frame - b.frame);
    if (this.series.length > 3000) this.series = this.series.filter((_, i) => i % 2 === 0);
    this.cosines = message.cosines;
    this.now = frame;
    if (message.verdict?.answer) this.#verdict(message.verdict);
    this.#paintSeries();
    this.#paintCosines();
  }

  showAttention(message) {
    this.attention = message;
    const many = message.n > message.side ? `, ${message.n} tokens in ${message.side} blocks` : "";
    document.getElementById("attention-title").textContent = `Attention P(t)${message.heads > 1 ? `, mean of ${message.heads} heads` : ""}${many}`;
    this.#paintAttention();
  }

  #prediction({ words, says, rate, proved, paper, suggestion }) {
    const root = document.getElementById("prediction");
    root.replaceChildren();
    if (!words) return;
    const strong = document.createElement("b");
    strong.textContent = words[0].toUpperCase() + words.slice(1);
    const how = proved ? "proved" : paper ? "not proved" : "";
    const facts = [how, rate ? `rate: ${rate}` : "", paper].filter(Boolean).join(", ");
    root.append(strong, facts ? ` (${facts}). ` : ". ", says ?? "", suggestion ? ` ${suggestion}` : "");
  }

  #verdict({ answer, says }) {
    const root = document.getElementById("verdict");
    root.dataset.answer = answer ?? "none";
    root.textContent = answer ? `${ANSWERS[answer]}. ${says}` : "";
  }

  paint() {
    this.#paintAttention();
    this.#paintSeries();
    this.#paintCosines();
    this.#paintSpectrum();
  }

  #prepare(name) {
    const canvas = this.canvases[name], ratio = Math.min(window.devicePixelRatio || 1, 2);
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
    if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = "11px system-ui, sans-serif";
    pen.fillStyle = this.theme.grey;
    pen.strokeStyle = this.theme.pale;
    pen.lineWidth = 1;
    const box = { x: PADDING.left, y: PADDING.top, w: width - PADDING.left - PADDING.right, h: height - PADDING.top - PADDING.bottom };
    return { pen, width, height, box };
  }

  #paintAttention() {
    const { pen, width, height } = this.#prepare("attention");
    if (!this.attention) return;
    const { side, weights } = this.attention, image = new ImageData(side, side);
    let most = Math.min(6 / side, 1); // equal weights are pale, not dark
    for (const weight of weights) most = Math.max(most, weight);
    const [from, to] = [this.theme.cardNumbers, this.theme.weightNumbers];
    for (let i = 0; i < side * side; i++) {
      const share = Math.sqrt(Math.max(weights[i], 0) / most); // the root, so that small weights are seen
      for (let k = 0; k < 3; k++) image.data[4 * i + k] = from[k] + share * (to[k] - from[k]);
      image.data[4 * i + 3] = 255;
    }
    const sheet = new OffscreenCanvas(side, side);
    sheet.getContext("2d").putImageData(image, 0, 0);
    pen.imageSmoothingEnabled = false;
    const size = Math.min(width, height);
    pen.drawImage(sheet, 0, 0, size, size);
  }

  #x(point) {
    // Times as the time slider has them: evenly, or by the logarithm.
    if (this.model.logTime) return point.frame / Math.max(this.count ?? 1, 1);
    const end = Math.max(this.model.settings.end ?? 1, this.series.at(-1)?.time ?? 0);
    if (this.model.settings.spacing !== "log") return point.time / end;
    return Math.log1p((1e4 * point.time) / end) / Math.log1p(1e4);
  }

  #paintSeries() {
    const { pen, box } = this.#prepare("series");
    if (this.model.logTime) this.count = Math.max(this.count ?? 1, this.series.at(-1)?.frame ?? 1);
    const most = Math.max(...this.series.map((one) => one.clusters), 1);
    const highest = this.model.height === "energy" ? 1 : Math.max(...this.series.map((one) => one.height ?? 0), 1);
    frame(pen, box, [["0", 1], [String(most), 0]], [["0", 0], [this.model.logTime ? "log t" : "t", 1]]);
    const curve = (colour, at) => {
      pen.strokeStyle = colour;
      pen.lineWidth = 1.6;
      pen.beginPath();
      for (const [k, one] of this.series.entries()) pen[k ? "lineTo" : "moveTo"](box.x + box.w * this.#x(one), box.y + box.h * (1 - at(one)));
      pen.stroke();
    };
    curve(this.theme.accent, (one) => one.clusters / most);
    curve(this.theme.bad, (one) => (one.height ?? 0) / highest);
    const now = this.series.find((one) => one.frame === this.now);
    if (!now) return;
    pen.strokeStyle = this.theme.grey;
    pen.lineWidth = 1;
    const x = box.x + box.w * this.#x(now);
    pen.beginPath(); pen.moveTo(x, box.y); pen.lineTo(x, box.y + box.h); pen.stroke();
    pen.fillStyle = this.theme.ink;
    pen.textAlign = x > box.x + box.w / 2 ? "right" : "left";
    const height = now.height === null ? "" : `, ${Number(now.height).toPrecision(3)}`;
    pen.fillText(`${now.clusters}${height}`, x + (pen.textAlign === "right" ? -5 : 5), box.y + 10);
  }

  #paintCosines() {
    const { pen, box } = this.#prepare("cosines"), shares = this.cosines ?? [];
    const most = Math.max(...shares, 1e-9);
    frame(pen, box, shares.length ? [[`${(100 * most).toFixed(0)}%`, 0]] : [], [["−1", 0], ["0", 0.5], ["1", 1]]);
    pen.fillStyle = this.theme.accent;
    const width = box.w / (shares.length || 1);
    for (const [k, share] of shares.entries()) pen.fillRect(box.x + k * width + 0.5, box.y + box.h * (1 - share / most), Math.max(width - 1, 1), (box.h * share) / most);
  }

  #paintSpectrum() {
    const { pen, box } = this.#prepare("spectrum"), all = (this.model.eigenvalues ?? []).flat();
    if (!all.length) { pen.fillText("V changes in time.", box.x, box.y + 20); return; }
    const reach = 1.15 * Math.max(...all.flat().map(Math.abs), 1e-9);
    const unit = Math.min(box.w, box.h) / 2 / reach, [x, y] = [box.x + box.w / 2, box.y + box.h / 2];
    pen.beginPath(); pen.moveTo(box.x, y); pen.lineTo(box.x + box.w, y); pen.moveTo(x, box.y); pen.lineTo(x, box.y + box.h); pen.stroke();
    pen.textAlign = "right"; pen.fillText("Re", box.x + box.w, y - 4);
    pen.textAlign = "left"; pen.fillText("Im", x + 4, box.y + 9);
    pen.fillStyle = this.theme.accent;
    pen.globalAlpha = all.length > 30 ? 0.6 : 0.9;
    for (const [re, im] of all) { pen.beginPath(); pen.arc(x + unit * re, y - unit * im, all.length > 30 ? 2 : 3.5, 0, 2 * Math.PI); pen.fill(); }
    pen.globalAlpha = 1;
    const lead = all.reduce((best, one) => (one[0] > best[0] ? one : best));
    pen.fillStyle = this.theme.ink;
    pen.fillText(number(lead), Math.min(x + unit * lead[0] + 6, box.x + box.w - 44), y - unit * lead[1] + 14);
  }
}

function number([re, im]) {
  const part = (value) => Number(value.toPrecision(3)).toString().replace("-", "−");
  return Math.abs(im) < 1e-12 ? part(re) : `${part(re)} ± ${part(Math.abs(im))}i`;
}

function frame(pen, box, left, below) {
  pen.beginPath();
  pen.moveTo(box.x, box.y);
  pen.lineTo(box.x, box.y + box.h);
  pen.lineTo(box.x + box.w, box.y + box.h);
  pen.stroke();
  pen.textAlign = "right";
  for (const [text, share] of left) pen.fillText(text, box.x - 5, box.y + share * box.h + 4);
  for (const [text, share] of below) {
    pen.textAlign = share === 0 ? "left" : share === 1 ? "right" : "center";
    pen.fillText(text, box.x + share * box.w, box.y + box.h + 13);
  }
}
