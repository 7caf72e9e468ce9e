// The convex hull of points in space: its faces and edges.

const TOLERANCE = 1e-3; // over the size: points nearer to a face are on it, which also merges tokens of a cluster

export function solidHull(points, n) {
  // Triangles [a, b, c] of indices, outward; null where all points lie nearly in a plane. Points are flat, n x 3.
  const size = reach(points, n), eps = TOLERANCE * size;
  const seed = tetrahedron(points, n, eps);
  if (!seed) return null;
  let faces = [[0, 1, 2], [0, 2, 3], [0, 3, 1], [1, 3, 2]].map((one) => outward(points, one.map((k) => seed[k]), seed));
  // The farthest point first: points inside a flat side are never added, so that no face is a sliver.
  let outside = Array.from({ length: n }, (_, i) => i);
  for (;;) {
    const heights = outside.map((i) => Math.max(...faces.map((face) => height(face, points, i))));
    const isOut = heights.map((one) => one > eps);
    const place = heights.reduce((best, one, k) => (isOut[k] && !(one <= heights[best]) ? k : best), -1);
    const farthest = outside[place];
    if (farthest === undefined) return faces;
    outside = outside.filter((i, k) => isOut[k] && i !== farthest);
    const isSeen = (face) => height(face, points, farthest) > eps;
    faces = [...faces.filter((face) => !isSeen(face)), ...cone(points, faces.filter(isSeen), farthest)];
  }
}

export function edgesOf(faces) {
  // Each edge once, with its two ends and its two faces; edges inside a flat side are left out.
  const open = new Map(), edges = [];
  for (const face of faces) {
    for (let k = 0; k < 3; k++) {
      const a = face.corners[k], b = face.corners[(k + 1) % 3], other = open.get(`${b},${a}`);
      if (!other) open.set(`${a},${b}`, face);
      else if (dot(other.normal, face.normal) < 0.999) edges.push({ a, b, faces: [other, face] });
    }
  }
  return edges;
}

function cone(points, seen, i) {
  // New faces from point i to the boundary of the faces that it sees: edges with one face seen and one not.
  const sides = new Set(seen.flatMap(({ corners: [a, b, c] }) => [`${a},${b}`, `${b},${c}`, `${c},${a}`]));
  const out = [];
  for (const { corners } of seen) {
    for (let k = 0; k < 3; k++) {
      const a = corners[k], b = corners[(k + 1) % 3];
      if (!sides.has(`${b},${a}`)) out.push(faceOf(points, [a, b, i]));
    }
  }
  return out;
}

function tetrahedron(points, n, eps) {
  // Four points that are far apart: two ends, the point farthest from their line, and the farthest from that plane.
  const far = (measure) => {
    let best = -1, most = eps;
    for (let i = 0; i < n; i++) { const value = measure(i); if (value > most) { most = value; best = i; } }
    return best;
  };
  const at = (i) => [points[3 * i], points[3 * i + 1], points[3 * i + 2]];
  const finite = () => { for (let i = 0; i < n; i++) if (at(i).every(Number.isFinite)) return i; return -1; };
  const first = finite();
  if (first < 0) return null;
  const a = far((i) => Math.hypot(...minus(at(i), at(first))));
  if (a < 0) return null;
  const b = far((i) => Math.hypot(...minus(at(i), at(a)))), along = unit(minus(at(b), at(a)));
  const c = far((i) => Math.hypot(...cross(minus(at(i), at(a)), along)));
  if (c < 0) return null;
  const normal = unit(cross(along, minus(at(c), at(a))));
  const d = far((i) => Math.abs(dot(minus(at(i), at(a)), normal)));
  return d < 0 ? null : [a, b, c, d];
}

function outward(points, corners, seed) {
  const face = faceOf(points, corners), inside = seed.find((i) => !corners.includes(i));
  return height(face, points, inside) > 0 ? faceOf(points, [corners[0], corners[2], corners[1]]) : face;
}

function faceOf(points, corners) {
  const [a, b, c] = corners.map((i) => [points[3 * i], points[3 * i + 1], points[3 * i + 2]]);
  const normal = unit(cross(minus(b, a), minus(c, a)));
  return { corners, normal, offset: dot(normal, a) };
}

function height({ normal, offset }, points, i) {
  return normal[0] * points[3 * i] + normal[1] * points[3 * i + 1] + normal[2] * points[3 * i + 2] - offset;
}

function reach(points, n) {
  let most = 0;
  for (let i = 0; i < 3 * n; i++) if (Number.isFinite(points[i])) most = Math.max(most, Math.abs(points[i]));
  return most || 1;
}

export const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
export const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const minus = (a, b) => [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
const unit = (a) => { const size = Math.hypot(...a) || 1; return a.map((one) => one / size); };
