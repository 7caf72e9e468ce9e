// From tokens in R^d to the three coordinates that are drawn, and from there to the screen.

export function axesFor(d, chosen, principal) {
  // Rows of a 3 x d matrix; null where the coordinates themselves are drawn.
  if (d <= 3) return null;
  if (principal) return principal.map((row) => Float32Array.from(row));
  return chosen.map((axis) => { const row = new Float32Array(d); row[Math.min(axis, d - 1)] = 1; return row; });
}

export function toSpace(frame, axes, out) {
  // The three coordinates drawn, n x 3, into `out`; missing ones are zero.
  const { n, d, tokens } = frame;
  out.fill(0);
  if (!axes) {
    for (let i = 0; i < n; i++) for (let j = 0; j < d; j++) out[3 * i + j] = tokens[i * d + j];
    return;
  }
  for (let k = 0; k < axes.length; k++) {
    const row = axes[k];
    for (let i = 0; i < n; i++) {
      let sum = 0;
      for (let j = 0; j < d; j++) sum += row[j] * tokens[i * d + j];
      out[3 * i + k] = sum;
    }
  }
}

export function spread(points, axis) {
  // The largest absolute value of a coordinate.
  let largest = 0;
  for (let i = axis; i < points.length; i += 3) {
    if (Number.isFinite(points[i])) largest = Math.max(largest, Math.abs(points[i]));
  }
  return largest;
}

const MAX_RATIO = 1.7; // of the extents of two axes that share a scale

export function extentsOf(spreads) {
  // Extents of the axes: one for all, except for an axis of which tokens would fill a small part.
  const most = Math.max(...spreads) || 1;
  return spreads.map((one) => (one && one < most / MAX_RATIO ? MAX_RATIO * one : most));
}

export class Camera {
  constructor() { this.reset(3); }

  reset(d) {
    this.isFlat = d <= 2;
    this.center();
    this.matrix = [1, 0, 0, 0, 1, 0, 0, 0, 1];
    if (!this.isFlat) { this.turn(0.6, 0); this.turn(0, 0.35); }
  }

  center() {
    this.zoom = 1;
    this.shift = [0, 0]; // of the picture, right and up, in radii of the sphere before zooming
  }

  zoomBy(factor, [x, y]) {
    // The point drawn at (x, y) stays there.
    const zoom = Math.min(Math.max(this.zoom * factor, 0.05), 1e6), by = zoom / this.zoom;
    this.shift = [x - by * (x - this.shift[0]), y - by * (y - this.shift[1])];
    this.zoom = zoom;
  }

  turn(right, down) {
    if (this.isFlat) return;
    const [c, s, e, f] = [Math.cos(right), Math.sin(right), Math.cos(down), Math.sin(down)];
    this.matrix = product(product([1, 0, 0, 0, e, -f, 0, f, e], [c, 0, s, 0, 1, 0, -s, 0, c]), this.matrix);
  }

  get state() { return [...this.matrix, this.zoom, ...this.shift]; }

  set state(numbers) {
    this.matrix = numbers.slice(0, 9);
    this.zoom = Math.min(Math.max(numbers[9], 0.05), 1e6);
    this.shift = [numbers[10] ?? 0, numbers[11] ?? 0];
  }
}

function product(a, b) {
  const out = [];
  for (let i = 0; i < 9; i += 3) {
    for (let j = 0; j < 3; j++) out.push(a[i] * b[j] + a[i + 1] * b[3 + j] + a[i + 2] * b[6 + j]);
  }
  return out;
}

export function hull(points) {
  // Convex hull of points on the screen by Andrew's monotone chain; indices in order.
  const order = points.map((_, i) => i).sort((a, b) => points[a][0] - points[b][0] || points[a][1] - points[b][1]);
  const apart = (a, b, k) => points[b][k] - points[a][k];
  const side = (a, b, c) => apart(a, b, 0) * apart(a, c, 1) - apart(a, b, 1) * apart(a, c, 0);
  const chain = (indices) => {
    const out = [];
    for (const i of indices) {
      while (out.length > 1 && side(out.at(-2), out.at(-1), i) <= 0) out.pop();
      out.push(i);
    }
    return out.slice(0, -1);
  };
  return [...chain(order), ...chain([...order].reverse())];
}
