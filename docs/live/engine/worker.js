// The engine of the live page in a worker: it answers the requests of the page with the messages of the server (PROTOCOL.md).

import { FRAMES_PER_SECOND } from "./clock.js";
import { modelFields } from "./facts.js";
import { principalAxes } from "./measure.js";
import { changed } from "./model.js";
import { Run } from "./run.js";
import { Strip } from "./strip.js";
import { RunEnded, load } from "./wasm.js";
import { Refused, setVocabulary } from "./words.js";

const SECONDS_PER_CALL = 0.012; // of one call of the engine, during which no request is read
const SECONDS_BETWEEN_PANELS = 0.15;
const MAX_UNPAINTED = 3; // frames, after which the run waits for the page
const MAX_PLACED_NUMBERS = 300; // coordinates of placed tokens that a link may contain
const REPLACING = ["space", "n", "d", "start", "seed", "runs"]; // settings that bring their own first tokens

let data = null, run = null, count = 0;
let plays = false, playedFromStart = false, until = null, speed = 1, isStepping = false, nextFrame = 0, unpainted = [], undo = null;
let requested = 0, answered = 0; // numbers of the last request to play, step or seek, and of the last whose frame is on display
let token = null, measured = null, nextPanels = 0, strip = null;

const now = () => performance.now() / 1000;
const send = (message) => postMessage(message);
const isMoving = () => plays || until !== null;
const isFull = () => unpainted.length >= MAX_UNPAINTED;

function refuse(error) {
  if (error instanceof RunEnded) plays = false;
  else if (!(error instanceof Refused)) { plays = false; setTimeout(() => { throw error; }); }
  until = null;
  isStepping = false;
  const isKnown = error instanceof Refused || error instanceof RunEnded;
  send({ type: "problem", sentence: isKnown ? error.message : "This run failed unexpectedly. Restart it, or change a setting.", ...(undo && error instanceof RunEnded ? { undo } : {}) });
  sendState();
}

const answers = {
  start(request) {
    const scenario = data.hello.catalogue.find(({ name }) => name === request.scenario);
    if (!scenario) throw new Refused(`\`scenario\` '${request.scenario}' is not offered on this page. ${data.install}`);
    begin(new Run(count + 1, scenario, request), request.plays ?? true, request.until ?? null);
    undo = request.undo ?? null;
  },
  tokens(request) {
    const rows = require().edited(request), changes = { ...differing(run.settings), n: rows.length };
    answers.start({ scenario: run.scenario.name, changes, tokens: rows, plays: request.plays });
  },
  change({ changes }) {
    const settings = changed(require().settings, changes), before = Object.fromEntries(Object.keys(changes).map((name) => [name, run.settings[name]]));
    if (run.needsRestart(settings, changes)) {
      const tokens = Object.keys(changes).some((name) => REPLACING.includes(name)) ? null : run.placed;
      answers.start({ scenario: run.scenario.name, changes: differing(settings), tokens, plays: plays || (run.isAtEnd && playedFromStart), undo: before });
      return;
    }
    run.change(changes);
    describeChange();
    undo = before;
    sendState();
  },
  play(request) { require(); [plays, until, isStepping] = [request.plays, null, false]; sendState(); },
  step({ by }) {
    require();
    plays = false;
    if (by > 0 && !run.hasNext) { isStepping = true; sendState(); } else { run.step(by); show(); }
  },
  seek({ share }) { require().seek(share); [until, isStepping] = [null, false]; show(); },
  speed({ factor }) { speed = factor; },
  row(request) { token = run && request.token < run.model.n ? request.token : null; nextPanels = 0; },
  axes() { send({ type: "axes", run: require().number, axes: principalAxes(run.frame.tokens, run.model.d) }); },
  strip({ shown }) {
    endStrip();
    strip = shown ? new Strip(require()) : null;
  },
  seen(request) {
    const place = unpainted.findLastIndex(([number, frame]) => number === request.run && frame === request.frame);
    unpainted = unpainted.slice(place + 1);
  },
};

function require() {
  if (!run) throw new Refused("There is no run yet. Choose a scenario.");
  return run;
}

function differing(settings) {
  const standard = run.scenario.settings;
  return Object.fromEntries(Object.entries(settings).filter(([name, value]) => name !== "runs" && value !== standard[name]));
}

function endStrip() {
  strip?.close();
  strip = null;
}

function begin(next, nextPlays, nextUntil) {
  endStrip();
  run?.engine.free();
  [run, count, plays, playedFromStart] = [next, next.number, nextPlays, nextPlays];
  [until, isStepping, nextFrame, unpainted, token, measured] = [nextUntil > 0 ? nextUntil : null, false, 0, [], null, null];
  const { scenario, model, placed } = run, isShort = placed && placed.flat().length <= MAX_PLACED_NUMBERS;
  send({ type: "started", run: run.number, scenario: scenario.name, paper: scenario.paper, logTime: false, placed: placed ? { tokens: isShort ? placed : null } : null, ...modelFields(scenario, run) });
  if (model.d > 3) answers.axes();
  show();
}

function describeChange() {
  send({ type: "changed", run: run.number, time: run.frame.time, ...modelFields(run.scenario, run) });
  measured = null;
  nextFrame = 0;
}

function show() {
  const { index, time, tokens, colours } = run.frame, { n, d } = run.model;
  unpainted = [...unpainted.slice(-MAX_UNPAINTED), [run.number, index]];
  send({ type: "frame", run: run.number, index, time, n, d, tokens: Float32Array.from(tokens), labels: colours, isLogTime: false });
  sendState();
}

function sendState() {
  if (!isStepping) answered = requested;
  if (!run) return;
  const { share, computed, isAtEnd, later, settings, frame } = run;
  send({ type: "state", run: run.number, plays: isMoving(), share, computed, atEnd: isAtEnd, end: settings.end, later, frame: frame.index, answered });
}

function isDue(time) { return isStepping || (isMoving() && !isFull() && (until !== null || time >= nextFrame)); }

function noteFrame(time) {
  isStepping = false;
  nextFrame = Math.max(nextFrame + 1 / FRAMES_PER_SECOND, time);
  if (until !== null && run.frame.time >= until) until = null;
}

function tick() {
  // Show or compute the next frame if it is due; returns seconds until there is something to do, or null.
  const time = now(), isWanted = () => (plays && until === null && run.wantsFrameAhead) || (isDue(time) && !run.hasNext);
  if (run.hasNext && isDue(time)) {
    run.replay(speed);
    noteFrame(time);
    if (run.isAtEnd) plays = false;
    show();
  } else if (isWanted()) {
    computeNext(time);
  }
  const panels = measureIfDue(time);
  if (strip) computeStrip();
  if (strip || isWanted() || (isDue(now()) && run.hasNext)) return 0;
  const due = isMoving() && !isFull() ? nextFrame - now() : Infinity;
  return Math.max(Math.min(due, panels), 0.001);
}

function computeStrip() {
  const message = strip.advance(SECONDS_PER_CALL);
  if (message) send(message);
  if (message?.isComplete) strip = null;
}

function computeNext(time) {
  const changes = run.dueChange();
  if (changes) { run.change(changes); describeChange(); return; }
  const wasBeforeEnd = run.recording.last.time < run.settings.end, frame = run.compute(speed, until, SECONDS_PER_CALL);
  if (!frame) return;
  if (run.accept(frame, isDue(time))) {
    noteFrame(time);
    if (wasBeforeEnd && run.isAtEnd) plays = false;
    show();
  } else if (!isMoving()) sendState();
}

function measureIfDue(time) {
  // Measure the frame on display if it has no measurement and enough time has passed; seconds until the next may follow.
  const key = `${run.number} ${run.frame.index} ${token}`;
  if (measured === key) return Infinity;
  if (time < nextPanels) return nextPanels - time;
  [measured, nextPanels] = [key, time + SECONDS_BETWEEN_PANELS];
  const about = { run: run.number, frame: run.frame.index, time: run.frame.time }, image = run.attention();
  send({ type: "panels", ...about, ...run.measured(), verdict: data.verdict });
  if (image) send({ type: "attention", run: run.number, index: about.frame, time: about.time, heads: run.model.heads.length, n: run.model.n, ...image });
  if (token !== null) send({ type: "row", ...about, token, weights: run.row(token) });
  return Infinity;
}

let timer = null, isPosted = false;
const channel = new MessageChannel(); // a turn without the 4 ms that a repeated timer waits
channel.port1.onmessage = () => { isPosted = false; turn(); };

function turn() {
  clearTimeout(timer);
  if (!run) return;
  let seconds = null;
  try { seconds = tick(); } catch (error) { refuse(error); }
  if (seconds === 0) { if (!isPosted) channel.port2.postMessage(null); isPosted = true; }
  else if (seconds !== null && seconds < Infinity) timer = setTimeout(turn, 1000 * seconds);
}

onmessage = ({ data: request }) => {
  try {
    if (!(request.type in answers)) throw new Refused(`This page cannot do that. ${data.install}`);
    requested = Math.max(requested, request.number ?? 0);
    answers[request.type](request);
  } catch (error) { refuse(error); }
  turn();
};

async function open() {
  const scenarios = fetch(new URL("../scenarios.json", import.meta.url)).then((answer) => answer.json());
  [data] = await Promise.all([scenarios, load(new URL("../engine.wasm", import.meta.url))]);
  setVocabulary(data);
  send(data.hello);
}

open().catch(() => send({ type: "connection", isOpen: false, reason: "The engine of this page could not be loaded. Reload the page." }));
