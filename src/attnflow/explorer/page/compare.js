// Two runs side by side: the second has a connection and a stage of its own, and differs from the first in one setting.

import { Stage } from "./stage.js";
import { showTooltip } from "./tooltip.js";
import { TiedFrames } from "./shared_clock.js";
import { WordField } from "./words.js";

const $ = (id) => document.getElementById(id);
const SETTINGS = [["beta", "β"], ["mask", "mask"], ["value", "V"], ["normalisation", "normalisation"], ["attention", "attention"], ["query_key", "QᵀK"]];
const SIGNS = Object.fromEntries(SETTINGS);
const MIRRORED = new Set(["play", "step", "seek", "speed"]);
const FIRST_DIFFERENCES = { // of several words the first that is known and differs
  mask: ["causal", "full"], value: ["minus-identity", "identity"], normalisation: ["pre", "sqrt", "post"], attention: ["unnormalised", "softmax"], query_key: ["gaussian", "identity"],
};

export class Comparison {
  #source = null;
  #tied = new TiedFrames();
  #start = null; // the last request to start the first run
  #states = [null, null];
  #sent = [0, 0]; #requests = 0; // number of the last request of each run to play, step or seek, and of all of them
  #alignments = 0; // that may still follow a pause: back to a frame of the slower run, then to one that both have
  #wasOpen = false;
  #painted = null;
  #accepted = null; // the last difference with which the second run could be started
  #isScheduled = false;

  constructor({ newSource, theme, first, actions }) {
    // `newSource()` gives the second run its source, `first` is the stage of the first run, `actions` are what the page does with frames, measurements and requests.
    Object.assign(this, { newSource, theme, first, actions, difference: null, half: 0, stage: null, model: null, palette: [] });
    this.memories = [newMemory(), newMemory()];
    $("compare-setting").append(...SETTINGS.map(([name, sign]) => new Option(sign, name)));
    $("compare-setting").onchange = () => this.differ({ name: $("compare-setting").value, value: null });
    $("compare-close").onclick = () => actions.close();
    for (const [half, id] of ["stage", "second-stage"].entries()) {
      $(id).addEventListener("pointerdown", () => { if (this.isOn) this.select(half); });
    }
    for (const [half, id] of ["first-caption", "second-caption"].entries()) $(id).onclick = () => this.select(half);
  }

  get isOn() { return this.difference !== null; }

  get source() { return this.#source; }

  open(difference, settings, words) {
    // Split the stage and connect the second run, which starts when the first does.
    [this.settings, this.words] = [settings, words];
    this.difference = difference ?? firstDifference(settings, words);
    if (this.difference.value === null) this.difference = { ...this.difference, value: otherValue(this.difference.name, settings, words) };
    $("stages").classList.add("split");
    for (const id of ["second-stage", "compare-bar", "first-caption"]) $(id).hidden = false;
    $("compare").setAttribute("aria-pressed", "true");
    if (!this.stage) this.#build();
    [this.#wasOpen, this.#accepted] = [false, null];
    this.#tied.clear();
    this.#source = this.#connected();
    this.#source.open();
    this.select(0);
    this.show(settings);
  }

  close() {
    if (!this.isOn) return;
    this.select(0);
    this.#source.close();
    [this.difference, this.#source, this.model, this.first.beside] = [null, null, null, null];
    $("stages").classList.remove("split");
    for (const id of ["second-stage", "compare-bar", "first-caption"]) $(id).hidden = true;
    $("compare").setAttribute("aria-pressed", "false");
    const [held] = this.#tied.last; // a frame that waits for the second run: the server sends no more before it is seen
    if (held) this.actions.show(held);
  }

  #build() {
    this.stage = new Stage($("second-stage"), this.theme);
    this.stage.view = this.first.view;
    this.stage.onHover = (token) => { this.#source?.send({ type: "row", token }); this.actions.mark(1, token); this.#note(); };
    this.stage.onView = () => { this.first.repaint(); this.actions.remember(); };
  }

  #connected() {
    const source = this.newSource(), { actions } = this;
    source.on("hello", () => {
      if (this.#wasOpen) return actions.restart(); // both start again, so that they have one start
      this.#wasOpen = true;
      source.send({ type: "speed", factor: actions.speed() });
      return this.#start && source.send(this.#second(this.#start));
    });
    source.on("connection", ({ isFull }) => { if (isFull) { actions.close(); actions.say("The explorer has no room for a second run."); } });
    source.on("started", (message) => this.#started(message));
    source.on("frame", (frame) => this.tie(1, frame));
    source.on("state", (state) => this.note(1, state));
    source.on("row", (row) => { if (row.token === this.stage.hovered) { this.stage.row = row; this.#note(); this.stage.repaint(); } });
    source.on("panels", (message) => { this.stage.planes = message.planes; this.stage.repaint(); this.remember(1, message); });
    source.on("attention", (message) => { this.stage.attention = message; this.remember(1, message); });
    source.on("file", (message) => actions.file(message));
    source.on("busy", actions.busy);
    source.on("problem", (message) => this.#refused(message));
    return source;
  }

  #refused(message) {
    // The second run failed, or its difference was refused: then both return to the difference before, or the comparison ends.
    const before = this.#accepted, isRefused = before !== this.difference, sentence = `${this.captions[1]}: ${message.sentence}`;
    if (isRefused && before) this.differ(before);
    else if (isRefused) this.actions.close();
    this.actions.problem({ ...message, undo: null, isOfSecond: true, sentence });
  }

  #started(message) {
    this.#accepted = this.difference;
    this.model = message;
    this.stage.restart(message, this.palette, true);
    [this.stage.camera, this.stage.beside, this.first.beside] = [this.first.camera, this.first, this.stage];
    this.#tied.forget(1);
    this.memories[1] = newMemory();
    if (this.half === 1) this.actions.select(1);
  }

  begin() {
    // The first run was started: forget what was measured before.
    this.#tied.forget(0);
    this.memories[0] = newMemory();
  }

  forward(request) {
    // The request for the first run, passed on to the second where both must follow it. Its number tells states that answer it from those before.
    if (request.type === "start") this.#start = request;
    if (!this.isOn) return request;
    if (request.type === "start") this.#source.send(this.#second(request));
    if (!MIRRORED.has(request.type)) return request;
    this.#alignments = request.type === "speed" ? 0 : 4;
    const number = (this.#requests += 1), numbered = request.type === "speed" ? request : { ...request, number };
    if (numbered !== request) this.#sent = [number, number];
    this.#source.send(numbered);
    return numbered;
  }

  #second(request) {
    const { name, value } = this.difference;
    return { ...request, changes: { ...request.changes, [name]: value } };
  }

  differ({ name, value }) {
    const isKnown = this.#accepted?.name === name && this.#accepted.value === value;
    this.difference = isKnown ? this.#accepted : { name, value: value ?? otherValue(name, this.settings, this.words) };
    this.show(this.settings);
    this.actions.restart();
  }

  tie(half, frame) {
    // Show the latest frames of both that are not after the time that both have reached.
    const pair = this.#tied.add(half, frame);
    if (!pair) return;
    this.actions.show(pair[0]);
    this.#paint(pair[1]);
  }

  #paint(frame) {
    this.frame = frame;
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    requestAnimationFrame(() => {
      this.#isScheduled = false;
      const { frame: shown, stage, model } = this;
      if (!this.isOn || !model || shown.run !== model.run) return;
      this.#takeAxes();
      stage.show(shown);
      $("second-clock").textContent = this.actions.clock(shown);
      if (shown !== this.#painted) this.#source.send({ type: "seen", run: shown.run, frame: shown.index });
      this.#painted = shown;
      this.#note();
    });
  }

  #takeAxes() {
    const { stage, first } = this, areOther = stage.principal !== first.principal || stage.chosen !== first.chosen;
    if (this.model.settings.d > 3 && areOther) stage.setAxes(first.chosen, first.principal);
  }

  follow() {
    // The view of the first stage has changed.
    if (!this.isOn || !this.model) return;
    this.#takeAxes();
    this.stage.repaint();
  }

  note(half, state) {
    // After a pause the run that is ahead goes back to the time of the other.
    this.#states[half] = state;
    const [a, b] = this.#states, last = this.#tied.last;
    if (!this.isOn || !this.#alignments || !a || !b || a.plays || b.plays || !last[0] || !last[1]) return;
    if (a.answered < this.#sent[0] || b.answered < this.#sent[1]) return; // a state of before: the answer is on its way
    if (a.frame !== last[0].index || b.frame !== last[1].index) return;
    if (Math.abs(last[0].time - last[1].time) <= 1e-9 * Math.max(last[0].time, last[1].time)) return;
    const ahead = last[0].time > last[1].time ? 0 : 1, number = (this.#requests += 1);
    this.#alignments -= 1;
    this.#sent[ahead] = number;
    this.actions.seek(ahead, { type: "seek", share: this.#states[1 - ahead].share, number });
  }

  remember(half, message) {
    if (!this.isOn) return;
    const memory = this.memories[half];
    if (message.type === "attention") memory.attention = message;
    else { memory.panels.push(message); if (message.verdict?.answer) memory.verdict = message.verdict; }
    if (this.half === half) this.actions.measure(message, half);
  }

  select(half) {
    const isOther = half !== this.half;
    this.half = half;
    for (const [k, id] of ["first-caption", "second-caption"].entries()) $(id).setAttribute("aria-pressed", String(k === half));
    for (const [k, id] of ["stage", "second-stage"].entries()) $(id).classList.toggle("selected", k === half);
    if (isOther) this.actions.select(half);
  }

  get captions() {
    const { name, value } = this.difference;
    return [this.settings[name], value].map((one) => `${SIGNS[name]} = ${one}`);
  }

  show(settings) {
    // Captions over the halves, and the field of the value that differs.
    this.settings = settings;
    const { name, value } = this.difference, [left, right] = this.captions;
    [$("first-caption").textContent, $("second-caption").textContent] = [left, right];
    $("compare-setting").value = name;
    if (this.field?.name === name) return this.field.show(value);
    this.field = name === "beta" ? numberField((beta) => this.differ({ name, value: beta })) : wordField(name, this.words[name], (word) => this.differ({ name, value: word }));
    $("compare-value").replaceChildren(this.field.root);
    return this.field.show(value);
  }

  setPalette(palette) {
    this.palette = palette;
    this.stage?.setPalette(palette);
  }

  #note() { showTooltip($("second-tooltip"), this.stage); }
}

const newMemory = () => ({ panels: [], attention: null, verdict: {} });

function firstDifference(settings, words) {
  const name = settings.attention.startsWith("hardmax") ? "mask" : "beta";
  return { name, value: otherValue(name, settings, words) };
}

function otherValue(name, settings, words) {
  if (name === "beta") return settings.beta < 3 ? 9 : 1;
  return FIRST_DIFFERENCES[name].find((word) => words[name].includes(word) && word !== settings[name]);
}

function numberField(onChange) {
  const input = Object.assign(document.createElement("input"), { type: "number", step: "any", id: "compare-beta" });
  input.setAttribute("aria-label", "beta of the second run");
  input.addEventListener("change", () => { if (Number.isFinite(input.valueAsNumber)) onChange(input.valueAsNumber); });
  return { name: "beta", root: input, show: (value) => { if (document.activeElement !== input) input.value = value; } };
}

function wordField(name, known, onChange) {
  const field = new WordField(name, "", known, onChange);
  field.select.name = "compare-word";
  field.numbers.name = "compare-numbers";
  field.select.setAttribute("aria-label", `${SIGNS[name]} of the second run`);
  return { name, root: field.root, show: (value) => { if (!field.isBusy) field.show(value, false); } };
}

export function differenceOf(text) {
  // The difference that a link contains, such as beta:9 or mask:window:8; null for another text.
  const at = (text ?? "").indexOf(":"), name = (text ?? "").slice(0, at), value = (text ?? "").slice(at + 1);
  if (at < 0 || !(name in SIGNS) || !value) return null;
  if (name !== "beta") return { name, value };
  return Number.isFinite(Number(value)) ? { name, value: Number(value) } : null;
}
