// The page: passes messages of a source to stage, panels and controls, and actions of the user to the source.

import { Comparison } from "./compare.js";
import { Controls, betaOf, sliderOf } from "./controls.js";
import { lightWith, showEquation } from "./equation.js";
import { showDescription, showPrediction, showPrompts, showVerdict, spokenText } from "./explain.js";
import { EngineSource } from "./engine_source.js";
import { ExportMenu } from "./export.js";
import { TokenEditing } from "./token_editing.js";
import { LayerInterpolation } from "./interpolation.js";
import { listenForKeys } from "./keyboard.js";
import * as link from "./link.js";
import { LiveSource } from "./live.js";
import { say, showWaiting } from "./notices.js";
import { timeText } from "./numbers.js";
import { Panels } from "./panels.js";
import { PatchImage } from "./patches.js";
import { showPieces } from "./pieces.js";
import { Question } from "./question.js";
import { RecordedSource } from "./recorded.js";
import { scenarioGroups } from "./scenarios.js";
import { Stage } from "./stage.js";
import { Strip } from "./strip.js";
import { onThemeChange, readTheme, readable } from "./theme.js";
import { showTooltip } from "./tooltip.js";
import { Tour, stepAt } from "./tour.js";

const $ = (id) => document.getElementById(id);
const VIEW = ["trails", "hull", "centres", "colours", "lines"];
const IMMEDIATE = ["end", "spacing", "saves"]; // settings that change no model: a link has their present values
const MAX_LINKED_DIMENSIONS = 64; // above it principal axes are too long for an address
const SECONDS = 14; // from start to end at speed one, as on the server
const theme = readTheme();
const stage = new Stage($("stage"), theme);
const panels = new Panels(theme), interpolation = new LayerInterpolation();
const recorded = $("recorded-run"); // messages of a finished run, in a page without a server
const address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/live`;
const engine = document.querySelector("meta[name=engine]")?.content; // module of a worker, in a page that computes its runs itself
const newSource = () => (engine ? new EngineSource(engine) : new LiveSource(address));
const source = recorded ? new RecordedSource(JSON.parse(recorded.textContent)) : newSource();
const exportMenu = new ExportMenu(stage, { beside: $("share"), name: () => `attnflow-${model?.scenario ?? "stage"}`, ask: recorded || engine ? null : (kind, view) => (comparison.half ? comparison.source : source).send({ type: "export", kind, ...view }), say });
const strip = new Strip($("strip"), {
  ask: (shown) => { if (!recorded) source.send({ type: "strip", shown }); },
  open: (beta) => request({ type: "start", scenario: model.scenario, changes: differing({ ...model.settings, beta }), plays: !prefersStill, ...placedTokens() }),
  colourOf: (cluster) => stage.colourOf(cluster), theme, onToggle: remember,
});
document.body.classList.toggle("recorded", Boolean(recorded));
const prefersStill = matchMedia("(prefers-reduced-motion: reduce)").matches;

let hello = null, controls = null, model = null, latest = null, painted = null, acknowledged = null;
let state = { plays: false }, wanted = null, isScrubbing = false, palette = [], base = { scenario: "sphere", changes: {} };

const comparison = new Comparison({ newSource, theme, first: stage, actions: {
  show: (frame) => { latest = frame; wait(""); schedule(); }, busy: (message) => wait(message.sentence, message.share), clock: (frame) => clockText(frame), speed: () => 10 ** Number($("speed").value),
  restart: () => { if (model) startBoth({}); }, close: compare, seek: (half, message) => (half ? comparison.source : source).send(message),
  select: showHalf, measure: (message, half) => measure(message, half), mark: (half, token) => { if (half === comparison.half) panels.mark(token); },
  problem: showProblem, file: (message) => exportMenu.receive(message), say, remember: () => remember(),
} });

const hands = new TokenEditing(stage, { send: (message) => source.send(message), isPlaying: () => state.plays, say });

const patches = new PatchImage(stage, (changes) => change(changes));

const question = new Question({ play: (plays) => play(plays), onChange: () => remember() });

window.explorer = { stage, panels, patches, comparison, hands, get frame() { return painted; }, get model() { return model; }, get state() { return state; } };

source.on("connection", ({ isOpen, isFull, reason }) => {
  showSlow({});
  if (isOpen) return say("Connected.");
  say(isFull ? "The explorer has no room for another page." : reason || "The server cannot be reached. Trying again ...");
  if (hello && model) wanted = current(true);
});

source.on("hello", (message) => {
  hello = message;
  palette = message.palette;
  question.choices = message.choices ?? [];
  $("ask").closest("label").hidden = Boolean(message.absent?.includes("ask"));
  $("absent").hidden = !message.install;
  $("absent").textContent = message.install ?? "";
  if (!controls && !recorded) {
    controls = new Controls($("settings"), message.words, change, message.absent);
    lightWith($("settings"), $("equation"));
  }
  if (!$("scenario").options.length) $("scenario").append(...scenarioGroups(message.catalogue));
  const linked = link.read(location.hash, message.catalogue);
  restore(wanted ?? linked);
  if (!wanted && linked.unknown) sayUnknown(linked);
  wanted = null;
});

source.on("started", (message) => {
  const isOther = (name) => model.settings[name] !== message.settings[name];
  const isNew = !model || model.scenario !== message.scenario || isOther("d") || isOther("space");
  if (!isNew && !isRestoring && areChosen()) pendingAxes = [...stage.chosen]; // a restart keeps chosen axes
  model = message;
  base = { scenario: message.scenario, changes: differing(message.settings) };
  offerAxes(message.settings.d);
  stage.restart(message, readable(palette, theme), !isNew);
  comparison.setPalette(readable(palette, theme));
  patches.begin(message);
  comparison.begin();
  hands.begin(message);
  question.begin(message);
  strip.restart(message);
  if (!message.placed) originalN = message.settings.n;
  $("first-tokens").hidden = !message.placed;
  allowHands();
  $("compare").disabled = message.logTime || message.isLayered || Boolean(message.steering); // all of such a run is computed at once
  if ($("compare").disabled) comparison.close();
  if (comparison.isOn) comparison.show(message.settings);
  if (pendingAxes) { stage.setAxes(pendingAxes, null); markAxes(false); }
  if (pendingCamera) { stage.setCamera(pendingCamera); pendingCamera = null; }
  isRestoring = $("controls").hidden = false; // shown when they have the values of the run, so that nothing moves
  showSlow({});
  if (comparison.half === 0) showHalf(0);
  say(prefersStill ? `${message.model}. Paused, since your system asks for less motion. Press play to start.` : message.model);
  $("problem").hidden = !isRefused && !isOfSecond;
  isRefused = false;
  wait("");
  isFirst = !recorded && !message.isLayered && !message.logTime && !message.steering;
  showPieces(stage, message.steering, message.settings.end);
  latest = null;
});

source.on("changed", (message) => {
  model = { ...model, ...message };
  stage.model = model;
  panels.change(model, message.time);
  strip.restart(model);
  wait("");
  showModel(model);
  say(message.model);
});

source.on("frame", (frame) => {
  if (frame.run === model?.run && (frame.index === 1 || !$("waiting").hidden)) wait("");
  if (comparison.isOn) return comparison.tie(0, frame);
  latest = frame;
  return schedule();
});

source.on("state", (message) => {
  const isNews = !message.plays || message.plays !== state.plays || message.run !== state.run || message.later.length !== state.later?.length;
  state = message;
  if (model) model.later = message.later;
  $("play").innerHTML = message.plays ? "&#10074;&#10074;" : "&#9654;&#xFE0E;";
  $("play").setAttribute("aria-label", message.plays ? "Pause" : "Play");
  if (!isScrubbing) $("time").value = message.share;
  panels.setPlace(message);
  comparison.note(0, message);
  if (message.atEnd) question.end();
  if (isFirst && message.plays) { isFirst = false; wait("Preparing the first step ..."); }
  if (isNews) remember(); // not with every frame: the address is written once nothing has changed for a while
});

source.on("panels", (message) => {
  if (model?.run !== message.run) return;
  if (comparison.isOn) comparison.remember(0, message); else measure(message, 0);
  stage.planes = message.planes;
  if (!state.plays) stage.paint();
});
source.on("attention", (message) => {
  if (model?.run !== message.run) return;
  if (comparison.isOn) comparison.remember(0, message); else measure(message, 0);
  stage.attention = message;
  patches.paint();
  if (!state.plays) stage.repaint();
});
source.on("file", (message) => exportMenu.receive(message));
source.on("axes", (message) => {
  if (pendingAxes) { pendingAxes = null; return; } // the link has its own axes
  if (model?.run !== message.run) return;
  const areLinked = pendingPrincipal?.[0].length === message.axes[0].length; // principal axes that the link contains
  const axes = areLinked ? pendingPrincipal : message.axes;
  asked = areAsked || areLinked ? axes : null;
  [pendingPrincipal, areAsked] = [null, false];
  stage.setAxes(stage.chosen, axes);
  markAxes(true);
  comparison.follow();
  remember();
});
source.on("row", (message) => { if (message.token === stage.hovered) { stage.row = message; tooltip(); patches.paint(); if (!state.plays) stage.paint(); } });
source.on("busy", (message) => { say(message.sentence || model?.model || ""); wait(message.sentence, message.share); });
source.on("slow", showSlow);
source.on("strip", (message) => { if (model?.run === message.run) strip.show(message); });
source.on("problem", showProblem);

function sayUnknown({ unknown, scenario }) {
  isRefused = true; // the sentence stays when the run starts
  showProblem({ sentence: `The scenario ${unknown} is not offered here; ${scenario} is shown instead. ${hello.install ?? ""}` });
}

function showProblem(message) {
  isRestoring = $("controls").hidden = false;
  hands.refuse();
  schedule();
  $("problem").hidden = false;
  isOfSecond = Boolean(message.isOfSecond);
  wait(stage.frame ? "" : "No run yet. Choose a scenario, or change a setting.");
  $("problem").querySelector("span").textContent = message.sentence;
  showSlow({});
  offerUndo($("undo-failed"), $("problem"), message.undo);
  const shown = modelOf(comparison.half) ?? model;
  if (shown) { controls?.show(shown.settings, standardOf(shown.scenario), Boolean(shown.steering)); say(shown.model); }
  else if (message.isOfSecond) isRefused = true; // the first run starts as the link says
  else if (hello && !isRefused && !message.final) { isRefused = true; start(base.scenario, {}); } // without the changes of the link
}

function measure(message, half) {
  // Measurements of the half that is selected.
  if (message.type === "attention") return panels.showAttention(message);
  const { frame } = half ? comparison.stage : stage;
  panels.add(message);
  if (message.verdict?.answer) { showVerdict(message.verdict); question.judge(message.verdict); }
  showPrompts(modelOf(half), message.clustersOf);
  if (frame) $(half ? "second-drawing" : "drawing").setAttribute("aria-label", spokenText(modelOf(half), frame, message.clusters, clockText(frame)));
  return null;
}

const modelOf = (half) => (half ? comparison.model : model);

function showHalf(half) {
  // Panels and texts of a half of the comparison; without one, of the run.
  if (!modelOf(half)) return;
  const { panels: measured, attention, verdict } = comparison.memories[half];
  panels.restart(modelOf(half));
  showVerdict(verdict);
  showModel(modelOf(half));
  for (const message of measured) panels.add(message);
  if (attention) panels.showAttention(attention);
  exportMenu.stage = half ? comparison.stage : stage;
  remember();
}

function compare() {
  // Begin or end the comparison; both runs start from the first tokens.
  if (comparison.isOn) { comparison.close(); allowHands(); return remember(); }
  if (!model) return null;
  comparison.open(null, model.settings, hello.words);
  return startBoth({});
}

function startBoth(changes) {
  // Two runs from one start: every change starts both again.
  const { difference } = comparison;
  if (comparison.half && difference.name in changes) {
    comparison.differ({ name: difference.name, value: changes[difference.name] });
    return;
  }
  request({ type: "start", scenario: model.scenario, changes: differing({ ...model.settings, ...changes }), plays: state.plays || state.atEnd || !prefersStill, ...placedTokens(changes) });
}

const REPLACING = ["space", "n", "d", "start", "seed", "prompt", "second", "layer"]; // settings that bring their own first tokens

function placedTokens(changes = {}) {
  // The tokens placed by hand with which the run starts again, unless changes bring others.
  const tokens = REPLACING.some((name) => name in changes) ? null : model?.placed?.tokens;
  return tokens ? { tokens } : {};
}

function request(message) {
  source.send(comparison.forward(message));
}

let isScheduled = false, pendingCamera = null, pendingAxes = null, pendingPrincipal = null;
let isRefused = false; // whether the link was refused
let isOfSecond = false; // whether the problem is one of the second run, which the start of the first does not end
let areAsked = false, asked = null; // principal axes of a frame that the user chose; a link has those of the first frame anyway
function schedule() {
  if (isScheduled) return;
  isScheduled = true;
  requestAnimationFrame((now) => {
    isScheduled = false;
    const frame = latest;
    if (hands.isHolding) return; // the token in the hand must not jump back
    if (!frame || !model || frame.run !== model.run) return;
    painted = model.isLayered && !prefersStill ? interpolation.pictureAt(now, frame, painted, pauseBetweenLayers()) : frame;
    stage.show(painted);
    patches.paint();
    $("clock").textContent = clockText(painted);
    if (frame.run !== acknowledged?.run) remember(); // from now on there is a picture whose view a link has
    if (frame !== acknowledged) source.send({ type: "seen", run: frame.run, frame: frame.index });
    acknowledged = frame;
    tooltip();
    if (painted !== frame) schedule();
  });
}

const pauseBetweenLayers = () => (1000 * SECONDS) / model.settings.end / 10 ** Number($("speed").value);

function clockText(frame) {
  if (!model.isLayered) return `t = ${timeText(frame.time, frame.isLogTime)}`;
  if (frame.fromTime !== undefined) return `layer ${frame.fromTime} → ${frame.time}`;
  return frame.time ? `after layer ${frame.time}` : "before layer 1";
}

const tour = new Tour((...step) => { comparison.close(); start(...step); }, () => remember()); // a caption is about one run

let isFirst = false; // whether the first step comes next, which may have to be compiled
const wait = (sentence, share) => showWaiting(sentence, share, stage.frame ? 400 : 0); // milliseconds before it is shown

function restore(target) {
  isRestoring = true;
  $("scenario").value = target.scenario;
  $("speed").value = target.speed;
  showSpeed();
  strip.isOpen = target.strip;
  for (const name of VIEW) { $(name).checked = target.view[name]; stage.view[name] = target.view[name]; }
  [pendingCamera, pendingAxes, pendingPrincipal] = [target.camera, target.axes, target.principal];
  base = { scenario: target.scenario, changes: target.changes };
  const step = stepAt(target.tour, hello.catalogue);
  if (step?.scenario.name === target.scenario) tour.show(step.scenario, step.index);
  else tour.close();
  question.isOn = target.ask;
  const plays = (target.plays ?? (target.time === null && !prefersStill)) && !question.isOpen;
  const at = target.time === null ? {} : { until: target.time };
  comparison.close();
  if (target.compare) comparison.open(target.compare, { ...standardOf(target.scenario), ...target.changes }, hello.words);
  request({ type: "start", scenario: target.scenario, changes: target.changes, later: target.later, plays, ...at, ...(target.tokens ? { tokens: target.tokens } : {}) });
  if (target.compare && target.half) comparison.select(1);
}

function start(scenario, changes) {
  base = { scenario, changes };
  request({ type: "start", scenario, changes, plays: !prefersStill && !question.isOn });
}

function change(changes) {
  $("problem").hidden = true; // it was about an earlier change
  isOfSecond = false;
  wait("Preparing the change ..."); // a new kind of model must be compiled
  if (comparison.isOn) startBoth(changes); else source.send({ type: "change", changes });
}

function showSlow({ sentence, undo }) {
  // Why the run is slow, and a button that restores the settings before the last change.
  $("slow").hidden = !sentence;
  $("slow").querySelector("span").textContent = sentence ?? "";
  offerUndo($("undo"), $("slow"), undo);
}

function offerUndo(button, notice, undo) {
  button.hidden = !undo;
  button.onclick = () => { notice.hidden = true; change(undo); if (!state.plays) play(true); };
}

function standardOf(name) { return hello.catalogue.find((one) => one.name === name).settings; }

function differing(settings) {
  const standard = standardOf(model.scenario);
  return Object.fromEntries(Object.entries(settings).filter(([name, value]) => name !== "runs" && value !== standard[name]));
}

function showModel(shown) {
  const standard = standardOf(shown.scenario), scenario = hello.catalogue.find((one) => one.name === shown.scenario);
  controls?.show(shown.settings, standard, Boolean(shown.steering));
  $("scenario").value = shown.scenario;
  $("hull").disabled = shown.isSphere || shown.settings.d < 2;
  $("centres").disabled = !shown.centres?.length;
  $("lines").closest("label").hidden = !shown.labels;
  showPrompts(shown, null);
  if (!recorded) tour.offer(scenario);
  showDescription(shown, scenario?.title); // the words are about the run as it was changed
  showPrediction(shown.prediction ?? {});
  question.show(shown);
  showEquation($("equation"), shown.settings, shown.steering);
  showQuickBeta(shown.settings);
}

function showQuickBeta({ beta, attention }) {
  // The slider below the stage of a narrow page, where the controls are farther down.
  $("quick-beta").closest("label").hidden = Boolean(recorded) || Boolean(model?.steering) || beta === undefined || attention.startsWith("hardmax");
  if (document.activeElement !== $("quick-beta")) $("quick-beta").value = sliderOf(beta);
  $("quick-beta-text").textContent = beta;
}

function current(withTime) {
  const isChanged = Boolean(stage.frame);
  return {
    scenario: base.scenario,
    changes: { ...base.changes, ...immediate() },
    later: model?.later ?? [],
    tokens: model?.placed?.tokens ?? null,
    time: withTime && Number.isFinite(painted?.time) ? painted.time : null,
    plays: withTime ? state.plays : undefined,
    speed: Number($("speed").value),
    tour: tour.place,
    camera: isChanged ? stage.camera.state : null,
    axes: areChosen() ? [...stage.chosen] : null,
    principal: stage.principal && asked?.[0].length <= MAX_LINKED_DIMENSIONS ? asked : null,
    view: { ...stage.view },
    strip: strip.isOpen,
    compare: comparison.difference,
    half: comparison.half,
    ask: question.isOn,
  };
}

let remembering = null, isRestoring = false; // an address that is being restored must not be overwritten
function remember() {
  if (recorded) return; // a file has no state in its address
  clearTimeout(remembering);
  remembering = setTimeout(() => { if (model && !isRestoring) history.replaceState(null, "", link.write(current(!state.plays))); }, 300);
}

function immediate() {
  // Settings that acted without a restart and are no part of `later`; the head of a prompt in layers is only shown.
  if (!model) return {};
  const made = differing(model.settings), names = model.isLayered ? [...IMMEDIATE, "head"] : IMMEDIATE;
  return Object.fromEntries(names.filter((name) => name in made).map((name) => [name, made[name]]));
}

function tooltip() { showTooltip($("tooltip"), stage); }

function offerAxes(d) {
  $("axes").hidden = d <= 3;
  if (d <= 3) return;
  for (let k = 0; k < 3; k++) {
    const select = $(`axis-${k}`);
    select.replaceChildren(...Array.from({ length: d }, (_, i) => new Option(`x${i + 1}`, i)), new Option(`pc ${k + 1}`, "principal"));
    select.value = "principal";
  }
}

const areChosen = () => !$("axes").hidden && $("axis-0").value !== "principal"; // whether the user has chosen axes

function markAxes(isPrincipal) {
  for (let k = 0; k < 3; k++) $(`axis-${k}`).value = isPrincipal ? "principal" : stage.chosen[k];
}

function play(plays = !state.plays) { request({ type: "play", plays }); }
function step(by) { request({ type: "step", by }); }
function restart() {
  if (!model) return;
  if (model.placed && !model.placed.tokens) { request({ type: "seek", share: 0 }); play(true); } // only the server has so many placed tokens
  else request({ type: "start", scenario: model.scenario, changes: differing(model.settings), plays: true, ...placedTokens() });
}

function allowHands() {
  // Tokens can be moved in one run that is computed while it plays.
  if (!model) return;
  $("move-tokens").disabled = model.logTime || model.isLayered || comparison.isOn;
  if ($("move-tokens").disabled) hands.turn(false);
}

let originalN = null; // number of tokens before any was placed by hand
function restoreTokens() {
  const settings = { ...model.settings, n: originalN ?? model.settings.n };
  request({ type: "start", scenario: model.scenario, changes: differing(settings), plays: state.plays });
}

function showSpeed() {
  const factor = 10 ** Number($("speed").value);
  $("speed-text").textContent = `×${Number(factor.toPrecision(2))}`;
  request({ type: "speed", factor });
}

$("play").onclick = () => play();
$("back").onclick = () => step(-1);
$("forward").onclick = () => step(1);
$("restart").onclick = restart;
$("compare").onclick = compare;
$("first-tokens").onclick = restoreTokens;
$("fit").onclick = fit;
function fit() { if (comparison.isOn) comparison.stage.fit(); stage.fit(); remember(); }
function askAxes() { areAsked = true; source.send({ type: "axes" }); }
$("principal").onclick = askAxes;
$("scenario").onchange = () => {
  history.pushState(null, "", `#scenario=${$("scenario").value}`); // so that the back button returns to the scenario before
  start($("scenario").value, {});
};
$("speed").oninput = () => { showSpeed(); remember(); };
$("quick-beta").oninput = () => {
  const beta = betaOf($("quick-beta").value);
  $("quick-beta-text").textContent = beta;
  change({ beta });
};
$("time").oninput = () => { isScrubbing = true; request({ type: "seek", share: Number($("time").value) }); };
$("time").onchange = () => { isScrubbing = false; };
$("dismiss").onclick = () => { $("problem").hidden = true; isOfSecond = false; };
for (const name of VIEW) $(name).onchange = () => { stage.view[name] = $(name).checked; stage.paint(); comparison.follow(); remember(); };
for (let k = 0; k < 3; k++) $(`axis-${k}`).onchange = (event) => {
  if (event.target.value === "principal") return askAxes();
  const axis = Number(event.target.value), other = stage.chosen.indexOf(axis);
  if (other >= 0) stage.chosen[other] = stage.chosen[k]; // no axis twice: two axes change places
  stage.chosen[k] = axis;
  stage.setAxes([...stage.chosen], null);
  markAxes(false);
  comparison.follow();
  remember();
};
$("share").onclick = async () => {
  const address = location.href.split("#")[0] + link.write(current(true));
  history.replaceState(null, "", address);
  const without = model?.placed && !model.placed.tokens ? " It starts from the original tokens: a link has room for 300 numbers." : "";
  try { await navigator.clipboard.writeText(address); say(`The link is copied.${without}`); } catch { say(`The link is in the address bar.${without}`); }
};
stage.onHover = (token) => { source.send({ type: "row", token }); if (!comparison.half) panels.mark(token); patches.paint(); tooltip(); };
// A run in rescaled coordinates, or two runs that are compared, start again with another V: only once a dot is dropped.
if (!recorded) panels.dragEigenvalues((value) => change({ value }), () => !comparison.isOn && model.settings.space !== "rescaled");
panels.onPoint = (token, partner) => (comparison.half ? comparison.stage : stage).point(token, partner);
panels.onSeek = (share) => request({ type: "seek", share });
stage.onView = () => { comparison.stage?.repaint(); remember(); };
onThemeChange(() => { readTheme(theme); stage.setPalette(readable(palette, theme)); comparison.setPalette(readable(palette, theme)); panels.paint(); patches.paint(); strip.paint(); });
addEventListener("hashchange", () => { if (hello && !recorded) restore(link.read(location.hash, hello.catalogue)); });

function choose(by) {
  // The next or previous token, cyclically.
  const n = stage.frame?.n ?? 0, from = stage.hovered ?? (by > 0 ? -1 : 0);
  if (n) stage.point((from + by + n) % n);
}
const faster = (by) => { $("speed").stepUp(2 * by); showSpeed(); remember(); };
listenForKeys({
  " ": () => play(), r: restart, f: fit,
  ArrowLeft: () => step(-1), ArrowRight: () => step(1), ArrowUp: () => faster(1), ArrowDown: () => faster(-1),
  "+": () => stage.zoomBy(1.15), "=": () => stage.zoomBy(1.15), "-": () => stage.zoomBy(1 / 1.15),
  ",": () => choose(-1), ".": () => choose(1), Delete: () => hands.remove(), Escape: () => stage.point(null), "?": () => $("help").togglePopover(),
}, (...angles) => stage.turn(...angles));

source.open();
