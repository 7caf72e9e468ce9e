// The recorded source: messages of a finished run, embedded in the page, take the place of a server's.

import { Source } from "./live.js";
import { decode } from "./protocol.js";

const SECONDS = 14; // from start to end at speed one, as on the server
const MAX_ATTENDED = 24, MIN_WEIGHT = 1e-4; // of a row, as on the server

export class RecordedSource extends Source {
  #messages;
  #position = 0;
  #share = 0;
  #plays = false;
  #factor = 1;
  #ticked = null;
  #image = null;
  #token = null; // whose attention row is shown
  #sent = new Set(); // frames whose panels were emitted

  constructor(messages) {
    super();
    this.#messages = messages;
  }

  open() {
    this.emit({ type: "connection", isOpen: true });
    this.emit(this.#messages.hello);
  }

  send(request) {
    const answers = {
      start: () => this.#start(request),
      play: () => this.#play(request.plays),
      step: () => { this.#plays = false; this.#show(this.#position + request.by); },
      seek: () => this.#show(this.#positionAt(request.share)),
      speed: () => { this.#factor = request.factor; },
      row: () => { this.#token = request.token; this.#row(request.token); },
      axes: () => this.#axes(),
      seen: () => {},
    };
    if (request.type in answers) answers[request.type]();
    else this.emit({ type: "problem", sentence: "This page plays a finished run. To change settings, start the explorer: attnflow explore." });
  }

  get #last() { return this.#messages.frames.length - 1; }

  #start({ plays, until }) {
    this.#sent.clear();
    this.#image = null;
    this.emit(this.#messages.started);
    if (this.#messages.started.settings.d > 3) this.#axes();
    const later = this.#messages.times.findIndex((time) => time !== null && time > (until ?? -Infinity));
    this.#show(until === undefined ? 0 : later < 0 ? this.#last : later - 1);
    this.#play(plays && until === undefined);
  }

  #axes() { this.emit({ type: "axes", run: 1, axes: this.#messages.axes }); }

  #play(plays) {
    if (plays && this.#position === this.#last) this.#show(0);
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
    const place = this.#positionAt(this.#share);
    if (place === this.#last) this.#plays = false;
    if (place !== this.#position) this.#show(place, this.#share);
    if (this.#plays) requestAnimationFrame((later) => this.#tick(later));
  }

  #positionAt(share) {
    const after = this.#messages.shares.findIndex((one) => one > share + 1e-9);
    return after < 0 ? this.#last : Math.max(after - 1, 0);
  }

  #show(place, share = null) {
    this.#position = Math.min(Math.max(place, 0), this.#last);
    this.#share = share ?? this.#messages.shares[this.#position];
    this.emit(decode(bytesOf(this.#messages.frames[this.#position])));
    this.#state();
    this.#measure();
  }

  #state() {
    const place = { share: this.#messages.shares[this.#position], computed: 1, frame: this.#position, atEnd: this.#position === this.#last };
    this.emit({ type: "state", run: 1, plays: this.#plays, end: this.#messages.started.settings.end, later: [], ...place });
  }

  #measure() {
    // Curves go from the start to the frame on display, whose panels are emitted last.
    for (let k = 0; k < this.#position; k++) if (!this.#sent.has(k)) { this.#sent.add(k); this.emit(this.#messages.panels[k]); }
    this.#sent.add(this.#position);
    this.emit(this.#messages.panels[this.#position]);
    const shown = Object.keys(this.#messages.attention).map(Number).filter((index) => index <= this.#position).at(-1);
    if (shown === undefined || shown === this.#image?.index) return;
    this.#image = decode(bytesOf(this.#messages.attention[shown]));
    this.emit(this.#image);
    this.#row(this.#token);
  }

  #row(token) {
    const image = this.#image;
    if (token === null || !image || image.side !== image.n) return; // for many tokens only blocks are available
    const row = Array.from(image.weights.subarray(token * image.n, (token + 1) * image.n), (weight, j) => [j, weight]);
    const weights = row.filter(([, weight]) => weight > MIN_WEIGHT).sort((a, b) => b[1] - a[1]).slice(0, MAX_ATTENDED);
    this.emit({ type: "row", run: 1, frame: this.#position, token, weights });
  }
}

function bytesOf(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;
}
