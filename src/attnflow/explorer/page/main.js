// The page: a source's messages to stage, panels and controls; what the visitor does back to the source.

import { Controls } from "./controls.js";
import * as link from "./link.js";
import { LiveSource } from "./live.js";
import { Panels } from "./panels.js";
import { Stage } from "./stage.js";
import { onThemeChange, readTheme, readable } from "./theme.js";

const $ = (id) => document.getElementById(id);
const VIEW = ["trails", "hull", "centres", "colours"];
const theme = readTheme();
const stage = new Stage($("stage"), theme);
const panels = new Panels(theme);
const source = new LiveSource(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/live`);
const prefersStill = matchMedia("(prefers-reduced-motion: reduce)").matches;

let hello = null, controls = null, model = null, latest = null, painted = null;
let state = { plays: false }, wanted = null, isScrubbing = false, palette = [], base = { scenario: "sphere", changes: {} };

window.explorer = { stage, panels, get frame() { return painted; }, get model() { return model; }, get state() { return state; } };

source.on("connection", ({ isOpen, isFull }) => {
  if (isOpen) return say("Connected.");
  say(isFull ? "The explorer is full." : "The server is gone. Trying to reach it again ...");
  if (hello && model) wanted = current(true);
});

source.on("hello", (message) => {
  hello = message;
  palette = message.palette;
  if (!controls) controls = new Controls($("settings"), message.words, change);
  if (!$("scenario").options.length) $("scenario").append(...message.catalogue.map((one) => new Option(one.name, one.name)));
  restore(wanted ?? link.read(location.hash, message.catalogue));
  wanted = null;
});

source.on("started", (message) => {
  const isNew = !model || model.scenario !== message.scenario || model.settings.d !== message.settings.d || model.settings.space !== message.settings.space;
  model = message;
  base = { scenario: message.scenario, changes: differing(message.settings) };
  stage.restart(message, readable(palette, theme), !isNew);
  if (pendingCamera) { stage.camera.state = pendingCamera; pendingCamera = null; }
  panels.restart(message);
  showModel();
  offerAxes(message.settings.d);
  say(message.model);
  $("problem").hidden = true;
  latest = null;
});

source.on("changed", (message) => {
  model = { ...model, ...message };
  stage.model = model;
  panels.change(model, message.time);
  showModel();
  say(message.model);
});

source.on("frame", (frame) => {
  latest = frame;
  schedule();
});

source.on("state", (message) => {
  state = message;
  if (model) model.later = message.later;
  $("play").innerHTML = message.plays ? "&#10074;&#10074;" : "&#9654;&#xFE0E;";
  $("play").setAttribute("aria-label", message.plays ? "Pause" : "Play");
  if (!isScrubbing) $("time").value = message.share;
  remember();
});

source.on("panels", (message) => {
  if (model?.run !== message.run) return;
  panels.add(message);
  stage.planes = message.planes;
  if (!state.plays) stage.paint();
});
source.on("attention", (message) => { if (model?.run === message.run) panels.showAttention(message); });
source.on("axes", (message) => { if (model?.run === message.run) { stage.setAxes(stage.chosen, message.axes); markAxes(true); } });
source.on("row", (message) => { if (message.token === stage.hovered) { stage.row = message; tooltip(); if (!state.plays) stage.paint(); } });
source.on("busy", (message) => say(message.sentence));
source.on("problem", (message) => {
  $("problem").hidden = false;
  $("problem").querySelector("span").textContent = message.sentence;
  if (model) controls?.show(model.settings, standardOf(model.scenario));
});

let isScheduled = false, pendingCamera = null;
function schedule() {
  if (isScheduled) return;
  isScheduled = true;
  requestAnimationFrame(() => {
    isScheduled = false;
    const frame = latest;
    if (!frame || !model || frame.run !== model.run) return;
    stage.show(frame);
    painted = frame;
    $("clock").textContent = timeText(frame);
    source.send({ type: "seen", run: frame.run, frame: frame.index });
    tooltip();
  });
}

function timeText(frame) {
  if (!frame.isLogTime) return `t = ${Number(frame.time.toPrecision(4))}`;
  return Number.isFinite(frame.time) ? `t = e^${frame.time.toFixed(2)}` : "t = 0";
}

function restore(wish) {
  $("scenario").value = wish.scenario;
  $("speed").value = wish.speed;
  showSpeed();
  for (const name of VIEW) { $(name).checked = wish.view[name]; stage.view[name] = wish.view[name]; }
  pendingCamera = wish.camera;
  base = { scenario: wish.scenario, changes: wish.changes };
  const plays = wish.plays ?? (wish.time === null && !prefersStill);
  const at = wish.time === null ? {} : { until: wish.time };
  source.send({ type: "start", scenario: wish.scenario, changes: wish.changes, later: wish.later, plays, ...at });
}

function start(scenario, changes) {
  base = { scenario, changes };
  source.send({ type: "start", scenario, changes, plays: !prefersStill });
}

function change(changes) { source.send({ type: "change", changes }); }

function standardOf(name) { return hello.catalogue.find((one) => one.name === name).settings; }

function differing(settings) {
  const standard = standardOf(model.scenario);
  return Object.fromEntries(Object.entries(settings).filter(([name, value]) => name !== "runs" && value !== standard[name]));
}

function showModel() {
  const standard = standardOf(model.scenario), scenario = hello.catalogue.find((one) => one.name === model.scenario);
  controls.show(model.settings, standard);
  $("scenario").value = model.scenario;
  const words = document.createElement("p"), paper = document.createElement("a");
  const isChanged = Object.keys(differing(model.settings)).some((name) => !["n", "seed", "end", "saves"].includes(name));
  Object.assign(paper, { href: `https://arxiv.org/abs/${scenario.paper}`, textContent: `arXiv:${scenario.paper}`, rel: "noreferrer", target: "_blank" });
  words.append(scenario.words.join(" "), isChanged ? " (With settings of your own.) " : " ", paper);
  $("words").replaceChildren(words);
}

function current(withTime) {
  const isChanged = Boolean(stage.frame);
  return {
    scenario: base.scenario,
    changes: base.changes,
    later: model?.later ?? [],
    time: withTime && painted && !painted.isLogTime ? painted.time : null,
    plays: withTime ? state.plays : undefined,
    speed: Number($("speed").value),
    camera: isChanged ? stage.camera.state : null,
    view: { ...stage.view },
  };
}

let remembering = null;
function remember() {
  clearTimeout(remembering);
  remembering = setTimeout(() => { if (model) history.replaceState(null, "", link.write(current(!state.plays))); }, 300);
}

function say(sentence) { $("status").textContent = sentence; }

function tooltip() {
  const token = stage.hovered, note = $("tooltip");
  if (token === null || !stage.seen?.[token]) { note.hidden = true; return; }
  const slot = stage.frame.labels?.[token] ?? 0;
  const mates = slot ? stage.frame.labels.reduce((sum, one) => sum + (one === slot), 0) : 1;
  const row = stage.row?.token === token ? stage.row.weights.slice(0, 4) : [];
  const seen = row.map(([j, weight]) => `${j + 1}: ${(100 * weight).toFixed(1)}%`).join("  ");
  note.textContent = `token ${token + 1}, ${slot ? `in a cluster of ${mates}` : "alone"}${seen ? `\nattends to ${seen}` : ""}`;
  note.hidden = false;
  const [x, y] = stage.seen[token];
  note.style.left = `${Math.min(Math.max(x + 14, 4), Math.max(stage.width - note.offsetWidth - 6, 4))}px`;
  note.style.top = `${Math.min(Math.max(y + 14, 4), stage.height - note.offsetHeight - 6)}px`;
}

function offerAxes(d) {
  $("axes").hidden = d <= 3;
  if (d <= 3) return;
  for (let k = 0; k < 3; k++) {
    const select = $(`axis-${k}`);
    select.replaceChildren(...Array.from({ length: d }, (_, i) => new Option(`x${i + 1}`, i)), new Option("principal", "principal"));
    select.value = "principal";
  }
}

function markAxes(isPrincipal) {
  for (let k = 0; k < 3; k++) $(`axis-${k}`).value = isPrincipal ? "principal" : stage.chosen[k];
}

function play(plays = !state.plays) { source.send({ type: "play", plays }); }
function step(by) { source.send({ type: "step", by }); }
function restart() { if (model) source.send({ type: "start", scenario: base.scenario, changes: base.changes, plays: true }); }

function showSpeed() {
  const factor = 10 ** Number($("speed").value);
  $("speed-text").textContent = `×${Number(factor.toPrecision(2))}`;
  source.send({ type: "speed", factor });
}

$("play").onclick = () => play();
$("back").onclick = () => step(-1);
$("forward").onclick = () => step(1);
$("restart").onclick = restart;
$("fit").onclick = () => stage.fit();
$("principal").onclick = () => source.send({ type: "axes" });
$("scenario").onchange = () => { stage.camera.zoom = 1; start($("scenario").value, {}); };
$("speed").oninput = () => { showSpeed(); remember(); };
$("time").oninput = () => { isScrubbing = true; source.send({ type: "seek", share: Number($("time").value) }); };
$("time").onchange = () => { isScrubbing = false; };
$("problem").querySelector("button").onclick = () => { $("problem").hidden = true; };
for (const name of VIEW) $(name).onchange = () => { stage.view[name] = $(name).checked; stage.paint(); remember(); };
for (let k = 0; k < 3; k++) $(`axis-${k}`).onchange = (event) => {
  if (event.target.value === "principal") return source.send({ type: "axes" });
  stage.chosen[k] = Number(event.target.value);
  stage.setAxes(stage.chosen, null);
  markAxes(false);
};
$("share").onclick = async () => {
  const address = location.href.split("#")[0] + link.write(current(true));
  history.replaceState(null, "", address);
  try { await navigator.clipboard.writeText(address); say("The link is copied."); } catch { say("The link is in the address bar."); }
};
stage.onHover = (token) => { source.send({ type: "row", token }); tooltip(); };
stage.onView = remember;
onThemeChange(() => { readTheme(theme); stage.palette = readable(palette, theme); stage.paint(); panels.paint(); });
addEventListener("hashchange", () => { if (hello) restore(link.read(location.hash, hello.catalogue)); });

const KEYS = {
  " ": () => play(), ArrowLeft: () => step(-1), ArrowRight: () => step(1), r: restart, f: () => stage.fit(),
  "+": () => stage.zoomBy(1.15), "-": () => stage.zoomBy(1 / 1.15),
  ArrowUp: () => { $("speed").stepUp(2); showSpeed(); }, ArrowDown: () => { $("speed").stepDown(2); showSpeed(); },
};
addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, select, textarea, button, a") && !(event.key === " " && event.target.type === "range");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || !(event.key in KEYS)) return;
  event.preventDefault();
  KEYS[event.key]();
});

source.open();
