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
    this.#worker = new Worker(this.address, { type: "module" });
    this.#worker.onmessage = ({ data }) => { this.#isReady = true; this.emit(data); };
    this.#worker.onerror = () => this.emit({ type: "connection", isOpen: false, reason: "The engine of this page failed. Reload the page." });
    this.emit({ type: "connection", isOpen: true });
  }

  close() {
    this.#worker?.terminate();
    [this.#worker, this.#isReady] = [null, false];
  }

  send(request) { if (this.#isReady) this.#worker.postMessage(request); }
}
