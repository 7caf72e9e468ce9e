// The recorded source: messages of a finished run, embedded in the page, take the place of a server's.

import { Source } from "./live.js";
import { decode } from "./protocol.js";

const SECONDS = 14; // from start to end at speed one, as the server has it
const MOST_ATTENDED = 24, LEAST_WEIGHT = 1e-4;

export class RecordedSource extends Source {
  #messages;
  #place = 0;
  #share = 0;
  #plays = false;
  #factor = 1;
  #ticked = null;
  #image = null;
  #token = null; // whose row is asked for
  #told = new Set();

  constructor(messages) {
    super();
    this.#messages = messages;
  }

  open() {
    this.tell({ type: "connection", isOpen: true });
    this.tell(this.#messages.hello);
  }

  send(request) {
    const answers = {
      start: () => this.#start(request),
      play: () => this.#play(request.plays),
      step: () => { this.#plays = false; this.#show(this.#place + request.by); },
      seek: () => this.#show(this.#placeOf(request.share)),
      speed: () => { this.#factor = request.factor; },
      row: () => { this.#token = request.token; this.#row(request.token); },
      axes: () => this.#axes(),
      seen: () => {},
    };
    if (request.type in answers) answers[request.type]();
    else this.tell({ type: "problem", sentence: "This page plays a finished run. Start the explorer to change it: attnflow explore." });
  }

  get #last() { return this.#messages.frames.length - 1; }

  #start({ plays, until }) {
    this.#told.clear();
    this.#image = null;
    this.tell(this.#messages.started);
    if (this.#messages.started.settings.d > 3) this.#axes();
    const later = this.#messages.times.findIndex((time) => time !== null && time > (until ?? -Infinity));
    this.#show(until === undefined ? 0 : later < 0 ? this.#last : later - 1);
    this.#play(plays && until === undefined);
  }

  #axes() { this.tell({ type: "axes", run: 1, axes: this.#messages.axes }); }

  #play(plays) {
    if (plays && this.#place === this.#last) this.#show(0);
    const wasStill = !this.#plays;
    this.#plays = plays;
    this.#ticked = null;
    this.#state();
    if (plays && wasStill) requestAnimationFrame((now) => this.#tick(now));
  }

  #tick(now) {
    if (!this.#plays) return;
    this.#share += (this.#factor * (now - (this.#ticked ?? now))) / (1000 * SECONDS);
    this.#ticked = now;
    const place = this.#placeOf(this.#share);
    if (place === this.#last) this.#plays = false;
    if (place !== this.#place) this.#show(place, this.#share);
    if (this.#plays) requestAnimationFrame((later) => this.#tick(later));
  }

  #placeOf(share) {
    const after = this.#messages.shares.findIndex((one) => one > share + 1e-9);
    return after < 0 ? this.#last : Math.max(after - 1, 0);
  }

  #show(place, share = null) {
    this.#place = Math.min(Math.max(place, 0), this.#last);
    this.#share = share ?? this.#messages.shares[this.#place];
    this.tell(decode(bytesOf(this.#messages.frames[this.#place])));
    this.#state();
    this.#measure();
  }

  #state() {
    const place = { share: this.#messages.shares[this.#place], computed: 1, frame: this.#place, atEnd: this.#place === this.#last };
    this.tell({ type: "state", run: 1, plays: this.#plays, end: this.#messages.started.settings.end, later: [], ...place });
  }

  #measure() {
    // Curves go from the start to here; the last one told is where the page stands.
    for (let k = 0; k < this.#place; k++) if (!this.#told.has(k)) { this.#told.add(k); this.tell(this.#messages.panels[k]); }
    this.#told.add(this.#place);
    this.tell(this.#messages.panels[this.#place]);
    const shown = Object.keys(this.#messages.attention).map(Number).filter((index) => index <= this.#place).at(-1);
    if (shown === undefined || shown === this.#image?.index) return;
    this.#image = decode(bytesOf(this.#messages.attention[shown]));
    this.tell(this.#image);
    this.#row(this.#token);
  }

  #row(token) {
    const image = this.#image;
    if (token === null || !image || image.side !== image.n) return; // of many tokens only blocks are known
    const row = Array.from(image.weights.subarray(token * image.n, (token + 1) * image.n), (weight, j) => [j, weight]);
    const weights = row.filter(([, weight]) => weight > LEAST_WEIGHT).sort((a, b) => b[1] - a[1]).slice(0, MOST_ATTENDED);
    this.tell({ type: "row", run: 1, frame: this.#place, token, weights });
  }
}

function bytesOf(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;
}
