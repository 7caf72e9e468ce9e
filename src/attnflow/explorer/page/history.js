// Positions of the tokens in the last frames, in buffers that are used again.

export class History {
  constructor(most) {
    this.most = most;
    this.frames = [];
  }

  clear() { this.frames.length = 0; }

  get length() { return this.frames.length; }

  add(points) {
    const isFull = this.frames.length >= this.most, old = isFull ? this.frames.shift() : null;
    const buffer = old?.length === points.length ? old : new Float32Array(points.length);
    buffer.set(points);
    this.frames.push(buffer);
  }
}
