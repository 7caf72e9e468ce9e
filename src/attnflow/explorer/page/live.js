// The live source: a run that the server computes, over a WebSocket.
//
// A source is what the page plays from. It has `on(type, listener)` for the messages hello, started, changed, frame,
// state, panels, attention, row, axes, problem, busy and for "connection" ({isOpen}), and `send(request)`. A recorded
// source gives the same messages from frames embedded in the page.

import { decode } from "./protocol.js";

export class Source {
  #listeners = new Map();

  on(type, listener) {
    this.#listeners.set(type, [...(this.#listeners.get(type) ?? []), listener]);
    return this;
  }

  tell(message) {
    for (const listener of this.#listeners.get(message.type) ?? []) listener(message);
  }

  send(_request) {
    throw new Error("A source must know how to send.");
  }
}

const FIRST_WAIT = 500, LONGEST_WAIT = 4000;

export class LiveSource extends Source {
  #socket = null;
  #wait = FIRST_WAIT;

  constructor(address) {
    super();
    this.address = address;
  }

  open() {
    const socket = new WebSocket(this.address);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => { this.#wait = FIRST_WAIT; this.tell({ type: "connection", isOpen: true }); };
    socket.onmessage = (event) => this.#read(event.data);
    socket.onclose = (event) => {
      if (this.#socket !== socket) return;
      this.tell({ type: "connection", isOpen: false, isFull: event.code === 1013 });
      if (event.code !== 1013) setTimeout(() => this.open(), this.#wait);
      this.#wait = Math.min(2 * this.#wait, LONGEST_WAIT);
    };
    this.#socket = socket;
  }

  #read(data) {
    this.tell(typeof data === "string" ? JSON.parse(data) : decode(data));
  }

  send(request) {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(request));
  }
}
