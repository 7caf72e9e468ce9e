// The menu of exports: pictures, drawn here; movie, dataset, code and a single page, written by the server.

import { axesFor } from "./geometry.js";
import { SvgPen } from "./svg.js";

const PNG_SCALE = 3; // pixels of a PNG for each pixel of the page
const PICTURES = [["png", "Picture (PNG)"], ["svg", "Drawing (SVG)"]];
const FILES = [
  ["mp4", "Movie (MP4)"], ["gif", "Movie (GIF)"], ["dataset", "Dataset (netCDF)"], ["code", "Python code"], ["html", "Page that plays the run (HTML)"],
];

const MOVIES = new Set(["mp4", "gif"]);
const COLOURS = ["paper", "card", "ink", "grey", "rule", "accent", "bad", "alone"]; // of the theme, that a movie needs
const MAX_DIMENSION = 1000; // above it axes are too long for a request; the server takes principal axes

export class ExportMenu {
  constructor(stage, { beside, name, ask, say }) {
    Object.assign(this, { stage, name, ask, say });
    const menu = document.createElement("details"), title = document.createElement("summary"), list = document.createElement("div");
    [menu.id, title.textContent] = ["export", "Save as"];
    for (const [kind, text] of [...PICTURES, ...(ask ? FILES : [])]) {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: text });
      button.dataset.kind = kind;
      button.onclick = () => { menu.open = false; this.#export(kind); };
      list.append(button);
    }
    menu.append(title, list);
    beside.before(menu);
    addEventListener("pointerdown", (event) => { if (!menu.contains(event.target)) menu.open = false; });
    menu.addEventListener("keydown", (event) => { if (event.key === "Escape") { menu.open = false; title.focus(); } });
  }

  async #export(kind) {
    if (kind === "png") save(`${this.name()}.png`, await pngOf(this.stage));
    else if (kind === "svg") save(`${this.name()}.svg`, new Blob([svgOf(this.stage)], { type: "image/svg+xml" }));
    else { this.say("Writing the file ..."); this.ask(kind, MOVIES.has(kind) ? { view: viewOf(this.stage) } : {}); }
  }

  receive({ name, content }) {
    save(name, new Blob([content]));
    this.say(`Saved ${name}.`);
  }
}

export function viewOf(stage) {
  // What a movie needs to look like the stage.
  const { width, height, camera, extents, view, theme, model } = stage, d = model.settings.d;
  const axes = d <= MAX_DIMENSION ? axesFor(d, stage.chosen, stage.principal) : null;
  return {
    width, height, camera: camera.state, extents: [...extents],
    axes: axes && axes.map((row) => Array.from(row, (x) => +x.toFixed(6))),
    hidden: Object.keys(view).filter((name) => !view[name]),
    theme: Object.fromEntries(COLOURS.map((name) => [name, theme[name]])),
    dark: theme.isDark,
  };
}

export function svgOf(stage) {
  const pen = new SvgPen(stage.width, stage.height, stage.theme.paper);
  drawWith(stage, pen, 1);
  return pen.text;
}

function pngOf(stage) {
  const sheet = new OffscreenCanvas(PNG_SCALE * stage.width, PNG_SCALE * stage.height), pen = sheet.getContext("2d");
  drawWith(stage, pen, PNG_SCALE);
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.globalCompositeOperation = "destination-over";
  pen.fillStyle = stage.theme.paper;
  pen.fillRect(0, 0, sheet.width, sheet.height);
  return sheet.convertToBlob({ type: "image/png" });
}

function drawWith(stage, pen, ratio) {
  // Paint the stage with another pen; a WebGL point cloud is drawn as dots of the pen.
  const own = { pen: stage.pen, ratio: stage.ratio, cloud: stage.cloud };
  Object.assign(stage, { pen, ratio, cloud: { works: false, clear() {} } });
  try { stage.paint(); } finally { Object.assign(stage, own); }
}

function save(name, blob) {
  const anchor = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 30_000);
}
