// Frames of two runs with one clock: the run that is ahead waits for the other.

export class TiedFrames {
  #waiting = [[], []]; // of each run the frame on display, then later ones

  clear() { this.forget(0); this.forget(1); }

  forget(half) { this.#waiting[half] = []; }

  get last() { return this.#waiting.map((frames) => frames.at(-1) ?? null); }

  add(half, frame) {
    // The frames to show now: of each run the last one that is not after the time that both have reached. Null before both have one.
    const frames = this.#waiting[half], before = frames.at(-1);
    if (before && (before.run !== frame.run || frame.index <= before.index)) frames.length = 0; // a new run, or an earlier time
    frames.push(frame);
    const [a, b] = this.last;
    if (!a || !b) return null;
    const reached = Math.min(a.time, b.time) * (1 + 1e-9);
    for (const one of this.#waiting) while (one.length > 1 && one[1].time <= reached) one.shift();
    return this.#waiting.map(([shown]) => shown);
  }
}
