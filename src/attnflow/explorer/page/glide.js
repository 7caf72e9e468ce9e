// Between two layers of a trained model nothing is computed: tokens glide from one to the next, for the eye only.

const LONGEST = 1100, SHARE = 0.8; // milliseconds of a glide; of the time that a layer is shown

export class Glide {
  #from = null; // where tokens were when the present frame came
  #to = null;
  #began = 0;

  pictureOf(frame, shown, now, pause) {
    // What to paint of a frame, `shown` being what is painted now and `pause` the milliseconds until the next frame.
    if (frame !== this.#to) this.#aim(frame, shown, now);
    const part = this.#from ? (now - this.#began) / Math.min(SHARE * pause, LONGEST) : 1;
    if (!(part < 1)) { this.#from = null; return frame; }
    return { ...frame, tokens: mixed(this.#from.tokens, frame, eased(part)), labels: this.#from.labels, leaves: this.#from.time };
  }

  #aim(frame, shown, now) {
    const isNext = shown?.run === frame.run && Math.abs(shown.index - frame.index) === 1;
    if (shown?.run === frame.run && shown.index === frame.index && this.#from) { this.#to = frame; return; } // the same again
    [this.#from, this.#to, this.#began] = [isNext ? shown : null, frame, now];
  }
}

function mixed(from, { tokens, n, d }, part) {
  // On the sphere: mixed, and brought back to it.
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
