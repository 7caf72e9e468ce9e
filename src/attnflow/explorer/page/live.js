// The live source: messages of a run that the server computes, over a WebSocket.
//
// A source provides the messages that the page shows. It has `on(type, listener)` for the messages hello, started, changed, frame,
// state, panels, attention, row, axes, problem, busy, slow and for "connection" ({isOpen}), and `send(request)`. A recorded
// source emits the same messages from data embedded in the page.

import { decode } from "./protocol.js";

export class Source {
  #listeners = new Map();

  on(type, listener) {
    this.#listeners.set(type, [...(this.#listeners.get(type) ?? []), listener]);
    return this;
  }

  emit(message) {
    for (const listener of this.#listeners.get(message.type) ?? []) listener(message);
  }

  send(_request) {
    throw new Error("A source must implement `send`.");
  }
}

const FIRST_WAIT = 500, MAX_WAIT = 4000; // milliseconds before connecting again
const STABLE = 5000; // milliseconds after which a connection counts as good

export class LiveSource extends Source {
  #socket = null;
  #wait = FIRST_WAIT;

  constructor(address) {
    super();
    this.address = address;
  }

  open() {
    const socket = new WebSocket(this.address);
    let opened = Infinity;
    socket.binaryType = "arraybuffer";
    socket.onopen = () => { opened = performance.now(); this.emit({ type: "connection", isOpen: true }); };
    socket.onmessage = (event) => this.#read(event.data);
    socket.onclose = (event) => {
      if (this.#socket !== socket) return;
      if (performance.now() - opened > STABLE) this.#wait = FIRST_WAIT;
      this.emit({ type: "connection", isOpen: false, isFull: event.code === 1013, reason: event.reason });
      if (event.code !== 1013) setTimeout(() => this.open(), this.#wait);
      this.#wait = Math.min(2 * this.#wait, MAX_WAIT);
    };
    this.#socket = socket;
  }

  close() {
    // End the connection; it is not opened again.
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
  }

  #read(data) {
    this.emit(typeof data === "string" ? JSON.parse(data) : decode(data));
  }

  send(request) {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(request));
  }
}
