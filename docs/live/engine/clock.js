// The clock of a playback and the recorded frames, with the rules of the explorer's `playback_clock.py` and `recording.py`.

export const FRAMES_PER_SECOND = 30;
const PLAYBACK_SECONDS = 14; // from the start of a run to its end at speed one
const LOG_TIME_RANGE = 1e4; // logarithmic time is resolved from the end down to the end over this
const MAX_NUMBERS = 6 * 2 ** 20; // coordinates that a recording holds: 48 MB
const MAX_FRAMES = 6000; // more than a time slider can tell apart

export class Clock {
  constructor(end, isLog) { Object.assign(this, { end, isLog }); }

  shareOf(time) { return this.isLog ? Math.log1p((time * LOG_TIME_RANGE) / this.end) / Math.log1p(LOG_TIME_RANGE) : time / this.end; }

  timeOf(share) { return this.isLog ? (this.end / LOG_TIME_RANGE) * Math.expm1(share * Math.log1p(LOG_TIME_RANGE)) : share * this.end; }

  after(time, factor) {
    // The time of the next frame: frames are at multiples of one share of the slider.
    const spacing = factor / (PLAYBACK_SECONDS * FRAMES_PER_SECOND);
    return this.timeOf((Math.floor(this.shareOf(time) / spacing + 1e-6) + 1) * spacing);
  }
}

export class Recording {
  frames = [];

  get last() { return this.frames.at(-1); }

  add(frame, shown) {
    // Append the latest frame. A full recording drops every second frame before the one on display.
    this.frames.push(frame);
    if (this.frames.length <= Math.max(2, Math.min(MAX_FRAMES, MAX_NUMBERS / frame.tokens.length))) return;
    const kept = shown === null ? this.frames.length - 1 : shown;
    this.frames = this.frames.filter((_, place) => place >= kept || place % 2 === 0);
  }

  placeAt(time) {
    // The place of the last frame that is not after a time.
    let [low, high] = [0, this.frames.length];
    while (low < high) { const middle = (low + high) >> 1; if (this.frames[middle].time <= time) low = middle + 1; else high = middle; }
    return Math.max(low - 1, 0);
  }
}
