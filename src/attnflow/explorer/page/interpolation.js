// Positions of tokens between two layers of a trained model, where nothing is computed: interpolated for display only.

const MAX_MILLISECONDS = 1100, SHARE = 0.8; // longest interpolation; its share of the time for which a layer is shown

export class LayerInterpolation {
  #from = null; // the picture on display when the present frame came
  #to = null;
  #began = 0;

  pictureAt(now, frame, shown, pause) {
    // The frame, or an interpolated picture before it: `shown` is on display, the next frame comes in `pause` milliseconds.
    if (frame !== this.#to) this.#start(frame, shown, now);
    const part = this.#from ? (now - this.#began) / Math.min(SHARE * pause, MAX_MILLISECONDS) : 1;
    if (!(part < 1)) { this.#from = null; return frame; }
    return { ...frame, tokens: interpolated(this.#from.tokens, frame, eased(part)), labels: this.#from.labels, fromTime: this.#from.time };
  }

  #start(frame, shown, now) {
    const isNext = shown?.run === frame.run && Math.abs(shown.index - frame.index) === 1;
    if (shown?.run === frame.run && shown.index === frame.index && this.#from) { this.#to = frame; return; } // the same frame, sent again
    [this.#from, this.#to, this.#began] = [isNext ? shown : null, frame, now];
  }
}

function interpolated(from, { tokens, n, d }, part) {
  // Linear interpolation, projected back to the sphere.
  const out = new Float32Array(n * d);
  for (let i = 0; i < n * d; i += d) {
    let square = 0;
    for (let j = i; j < i + d; j++) { out[j] = from[j] + part * (tokens[j] - from[j]); square += out[j] ** 2; }
    const length = Math.sqrt(square) || 1;
    for (let j = i; j < i + d; j++) out[j] /= length;
  }
  return out;
}

const eased = (part) => part * part * (3 - 2 * part);
