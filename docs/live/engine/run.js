// One run: its recorded frames, the frame on display, and the computation of further frames.

import { Clock, Recording } from "./clock.js";
import { ClusterColours, clusterDistance } from "./clusters.js";
import { attended, attentionImage, cosines, height, subspaces } from "./measure.js";
import { build, changed, firstTokens } from "./model.js";
import { Engine } from "./wasm.js";
import { Refused } from "./words.js";

const RESTARTING = ["space", "n", "d", "start", "seed", "heads"]; // settings that need other first tokens
const PLAYBACK = ["end", "spacing", "saves"]; // settings that do not change the model
const LONGEST_FRAME = 0.2; // seconds of computing after which the time of a frame is put forward
const NEXT_LOOK = 0.05; // seconds of computing that the frame put forward may still take
const MAX_FRAMES_AHEAD = 40; // computed and not shown

export class Run {
  constructor(number, scenario, { changes, later = [], tokens = null }) {
    Object.assign(this, { number, scenario, placed: tokens, later: [] });
    this.settings = this.firstSettings = changed(scenario.settings, changes);
    this.planned = [...later].sort(([a], [b]) => a - b);
    this.model = build(this.settings);
    this.first = firstTokens(this.settings, tokens);
    this.size = this.model.isSphere ? 1 : largestLength(this.first, this.model.d) || 1;
    this.distance = clusterDistance(this.first, this.model.d, this.size);
    this.colours = new ClusterColours(this.distance);
    this.recording = new Recording();
    [this.place, this.newestShown, this.target, this.seconds, this.started] = [0, 0, null, 0, 0];
    this.engine = new Engine(this.model, this.first, 0);
    this.recording.add(this.#coloured(0, 0, this.first), null);
  }

  get frame() { return this.recording.frames[this.place]; }

  get lastPlace() { return this.recording.frames.length - 1; }

  get clock() { return new Clock(Math.max(this.settings.end, this.recording.last.time), this.settings.spacing === "log"); }

  get share() { return Math.min(this.clock.shareOf(this.frame.time), 1); }

  get computed() { return Math.min(this.clock.shareOf(this.recording.last.time), 1); }

  get isAtEnd() { return this.place === this.lastPlace && this.frame.time >= this.settings.end * (1 - 1e-12); }

  get hasNext() { return this.place < this.lastPlace; }

  get wantsFrameAhead() {
    const latest = Math.min(this.settings.end, ...this.planned.slice(0, 1).map(([time]) => time)) * (1 - 1e-12);
    return this.recording.last.time < latest && this.lastPlace - this.place < MAX_FRAMES_AHEAD;
  }

  compute(factor, until, seconds) {
    // The frame after the last recorded one, or null if its computation needs another call. A frame that takes long is
    // replaced by an earlier one, so that the picture goes on in slow motion.
    this.target ??= this.#reachable(this.#nextTarget(factor, until));
    const began = performance.now(), tokens = this.engine.advance(this.target, seconds);
    this.seconds += (performance.now() - began) / 1000;
    const { last } = this.recording;
    if (tokens) {
      const frame = this.#coloured(last.index + 1, this.target, tokens);
      [this.target, this.seconds] = [null, 0];
      return frame;
    }
    const reached = this.engine.time;
    if (this.seconds > LONGEST_FRAME && reached > last.time) {
      this.target = Math.min(this.target, this.#reachable(reached + ((reached - last.time) * NEXT_LOOK) / this.seconds));
    }
    return null;
  }

  #nextTarget(factor, until) {
    const now = this.recording.last.time, ends = [this.settings.end, until ?? Infinity, ...this.planned.slice(0, 1).map(([time]) => time)];
    return Math.min(this.clock.after(now, factor), ...ends.filter((end) => end > now));
  }

  #reachable(wanted) {
    // The nearest time after the present one at which the solver can give a frame: fixed steps have multiples of one step.
    const { step } = this.model.solver, now = this.recording.last.time;
    if (step === null) return Math.max(wanted, now * (1 + 2 ** -51) + Number.MIN_VALUE);
    const [count, reached] = [wanted, now].map((time) => Math.round((time - this.started) / step));
    return this.started + step * Math.max(count, reached + 1);
  }

  accept(frame, shows) {
    // Record a computed frame; returns whether it comes on display: if it should, and the frame before it is.
    const isFollowed = this.place === this.lastPlace, shown = this.frame.time;
    this.recording.add(frame, isFollowed ? null : this.place);
    const isShown = shows && isFollowed;
    this.place = isShown ? this.lastPlace : this.recording.placeAt(shown);
    this.newestShown = Math.max(this.newestShown, this.frame.time);
    return isShown;
  }

  replay(factor) {
    // Show the next recorded frame; new frames are shown one by one.
    const byClock = this.recording.placeAt(this.clock.after(this.frame.time, factor));
    const wanted = this.frame.time < this.newestShown ? byClock : 0;
    this.place = Math.min(Math.max(wanted, this.place + 1), this.lastPlace);
    this.newestShown = Math.max(this.newestShown, this.frame.time);
  }

  seek(share) { this.place = this.recording.placeAt(this.clock.timeOf(share) * (1 + 1e-12)); }

  step(by) { this.place = Math.min(Math.max(this.place + by, 0), this.lastPlace); }

  dueChange() {
    // Remove and return the next change that a link has for the time on display.
    const [next] = this.planned;
    return next && !this.hasNext && next[0] <= this.recording.last.time * (1 + 1e-12) ? this.planned.shift()[1] : null;
  }

  needsRestart(settings, changes) {
    const names = Object.keys(changes), hasOtherCoordinates = this.settings.space === "rescaled" && names.includes("value");
    return names.some((name) => RESTARTING.includes(name)) || hasOtherCoordinates || (this.place === 0 && !this.later.length) || settings.end < this.frame.time;
  }

  change(changes) {
    // Continue from the frame on display with another model; frames computed after it are dropped.
    const settings = changed(this.settings, changes), { frame } = this;
    if (Object.keys(changes).every((name) => PLAYBACK.includes(name))) {
      [this.settings, this.target] = [settings, null];
      return;
    }
    const model = build(settings), engine = new Engine(model, frame.tokens, frame.time);
    this.engine.free();
    Object.assign(this, { model, engine, settings, started: frame.time, target: null, newestShown: frame.time });
    this.recording.frames.length = this.place + 1;
    const together = Object.assign({}, ...this.later.filter(([time]) => time === frame.time).map(([, made]) => made));
    this.later = [...this.later.filter(([time]) => time < frame.time), [frame.time, { ...together, ...changes }]];
    this.colours.startFrom(frame.colours);
  }

  measured() {
    // Numbers of the panels of the frame on display.
    const { tokens, clusters } = this.frame, { model } = this;
    const planes = subspaces(model, tokens, 0.03 * this.size); // three times as wide as at the end of a run, to show them early
    return { clusters, height: height(model, tokens, this.first), cosines: cosines(tokens, model.d), planes, clustersOf: null };
  }

  attention() { return attentionImage(this.model, this.frame.tokens, this.frame.time); }

  row(token) { return attended(this.model, this.frame.tokens, this.frame.time, token); }

  edited({ move, add, remove }) {
    // The tokens on display with one moved, added or removed.
    const { d, isSphere, n } = this.model, rows = Array.from({ length: n }, (_, i) => Array.from(this.frame.tokens.subarray(i * d, (i + 1) * d)));
    const token = move?.token ?? remove, point = move?.to ?? add;
    if (token !== undefined && !(Number.isInteger(token) && token >= 0 && token < n)) throw new Refused(`\`token\` must be from 0 to ${n - 1}, but it is ${token}.`);
    if (point && (point.length !== d || (isSphere && Math.abs(Math.hypot(...point) - 1) > 1e-6))) throw new Refused(`The place of a token must have ${d} coordinates${isSphere ? " and length 1" : ""}, but it has not.`);
    if (!point && n === 1) throw new Refused("A run has one token at least, so that the last one cannot be removed.");
    if (move) rows[token] = point; else if (add) rows.push(point); else rows.splice(token, 1);
    return rows;
  }

  #coloured(index, time, tokens) {
    const { colours, count } = this.colours.update(tokens, this.model.d);
    return { index, time, tokens, colours, clusters: count };
  }
}

function largestLength(tokens, d) {
  let largest = 0;
  for (let i = 0; i < tokens.length; i += d) largest = Math.max(largest, Math.hypot(...tokens.subarray(i, i + d)));
  return largest;
}
