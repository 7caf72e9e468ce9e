// The strip over beta: end states of runs that differ in beta only, computed in the pauses of the run on display.

import { ClusterColours, clusterDistance } from "./clusters.js";
import { principalAxes } from "./measure.js";
import { build, changed, firstTokens } from "./model.js";
import { Engine, RunEnded } from "./wasm.js";
import { Refused } from "./words.js";

const FACTORS = [1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8]; // of the beta of the run
const MAX_TOKENS = 64; // of one run; of more tokens the first ones are taken
const SECONDS_PER_CELL = 0.5; // of computing, after which a run is shown as far as it came
const STOPS = [0.1, 0.3, 0.6, 1]; // shares of the time at which a run that takes too long may be shown

export class Strip {
  // Cells of a strip, one after the other; `advance` computes for about some seconds and returns a message after each cell.
  #cells = [];
  #cell = null; // the run of the cell that is being computed

  constructor(run) {
    if (run.model.attention.name === "hardmax") throw new Refused("Hardmax attention has no beta. Choose another attention.");
    this.run = run;
    this.betas = FACTORS.map((factor) => Number((factor * (run.settings.beta || 1)).toPrecision(3)));
  }

  get isComplete() { return this.#cells.length === this.betas.length; }

  advance(seconds) {
    this.#cell ??= this.#begun(this.betas[this.#cells.length]);
    const cell = this.#cell, began = performance.now();
    try {
      const tokens = cell.engine.advance(STOPS[cell.stop] * cell.end, seconds);
      if (tokens) { [cell.tokens, cell.time] = [tokens, STOPS[cell.stop] * cell.end]; cell.stop += 1; }
    } catch (error) {
      if (!(error instanceof RunEnded)) throw error;
      cell.stop = STOPS.length; // the run cannot go on: its last state is shown
    }
    cell.seconds += (performance.now() - began) / 1000;
    if (cell.stop < STOPS.length && cell.seconds < SECONDS_PER_CELL) return null;
    cell.engine.free();
    this.#cells.push(picture(cell));
    this.#cell = null;
    return { type: "strip", run: this.run.number, beta: this.run.settings.beta, cells: [...this.#cells], isComplete: this.isComplete };
  }

  close() { this.#cell?.engine.free(); this.#cell = null; }

  #begun(beta) {
    const settings = changed(this.run.settings, { beta }), { d } = settings, n = Math.min(settings.n, MAX_TOKENS);
    const model = { ...build(settings), n }, tokens = firstTokens(settings, this.run.placed).slice(0, n * d);
    const size = model.isSphere ? 1 : Math.max(...Array.from({ length: n }, (_, i) => Math.hypot(...tokens.subarray(i * d, (i + 1) * d)))) || 1;
    return { beta, d, end: settings.end, distance: clusterDistance(tokens, d, size), engine: new Engine(model, tokens, 0), tokens, time: 0, stop: 0, seconds: 0 };
  }
}

function picture({ beta, time, tokens, d, distance }) {
  // The end state of one run as the page draws it: up to three coordinates of each token, over their size.
  const { colours, count } = new ClusterColours(distance).update(tokens, d), n = tokens.length / d;
  const axes = d > 3 ? principalAxes(tokens, d) : null, finite = (x) => (Number.isFinite(x) ? x : 0);
  const row = (i) => tokens.subarray(i * d, (i + 1) * d);
  const places = Array.from({ length: n }, (_, i) => (axes ? axes.map((axis) => axis.reduce((total, x, c) => total + x * row(i)[c], 0)) : [...row(i)])).flat().map(finite);
  const size = Math.max(...places.map(Math.abs)) || 1;
  return { beta, time, size, tokens: places.map((x) => Number((x / size).toFixed(4))), colours: [...colours], clusters: count };
}
