// The engine source: messages of a run that a worker in the browser computes, in a page without a server.

import { Source } from "./live.js";

export class EngineSource extends Source {
  #worker = null;
  #isReady = false; // after the first message; earlier requests are dropped, as those to a server before the connection is open

  constructor(address) {
    // `address` is that of the worker's module.
    super();
    this.address = address;
  }

  open() {
    const early = window.earlyEngine; // begun while the page was read, with the events that came before this source
    window.earlyEngine = null;
    this.#worker = early?.worker ?? new Worker(this.address, { type: "module" });
    this.#worker.onmessage = this.#worker.onerror = (event) => this.#read(event);
    this.emit({ type: "connection", isOpen: true });
    for (const event of early?.events ?? []) this.#read(event);
  }

  #read({ type, data }) {
    if (type === "error") return this.emit({ type: "connection", isOpen: false, reason: "The engine of this page failed. Reload the page." });
    this.#isReady = true;
    this.emit(data);
  }

  close() {
    this.#worker?.terminate();
    [this.#worker, this.#isReady] = [null, false];
  }

  send(request) { if (this.#isReady) this.#worker.postMessage(request); }
}
