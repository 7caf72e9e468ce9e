// Convex hull and parallel subspaces of the tokens.

import { hull } from "./geometry.js";
import { cross, dot, edgesOf, solidHull } from "./convex_hull.js";

const MAX_HULL_TOKENS = 500;

export function drawShapes(pen, stage) {
  const { model, frame } = stage;
  if (stage.planes && frame.d <= 3) drawPlanes(pen, stage, stage.planes);
  else if (!model.isSphere && frame.d >= 2 && frame.n <= MAX_HULL_TOKENS) drawHull(pen, stage);
}

function drawHull(pen, stage) {
  const faces = stage.camera.isFlat ? null : solidHull(normalised(stage), stage.frame.n);
  pen.strokeStyle = pen.fillStyle = stage.theme.accent;
  if (!faces) return outline(pen, stage);
  const away = stage.camera.matrix.slice(6, 9), isNear = (face) => dot(face.normal, away) > 0;
  for (const face of faces.filter(isNear)) {
    pen.globalAlpha = 0.03 + 0.08 * dot(face.normal, away);
    polygon(pen, face.corners.map((i) => stage.seenAt(i)));
    pen.fill();
  }
  for (const { a, b, faces: sides } of edgesOf(faces)) {
    const isFront = sides.some(isNear);
    pen.globalAlpha = isFront ? 0.7 : 0.28;
    pen.lineWidth = isFront ? 1.3 : 0.9;
    polygon(pen, [stage.seenAt(a), stage.seenAt(b)]);
    pen.stroke();
  }
  pen.globalAlpha = 1;
}

function normalised(stage) {
  // In units of the axes, so that flatness is judged as it is seen.
  return stage.points.map((x, i) => x / stage.extents[i % 3]);
}

function outline(pen, stage) {
  const all = Array.from({ length: stage.frame.n }, (_, i) => stage.seenAt(i));
  const points = all.filter(([x, y]) => Number.isFinite(x + y));
  const corners = points.length > 2 ? hull(points) : [];
  if (corners.length < 2) return;
  polygon(pen, corners.map((i) => points[i]));
  pen.globalAlpha = 0.08;
  pen.fill();
  pen.globalAlpha = 0.6;
  pen.lineWidth = 1.3;
  pen.stroke();
  pen.globalAlpha = 1;
}

function drawPlanes(pen, stage, { rows, levels }) {
  // {x: <row_k, x> = level_k for all k}: a line in the plane; a plane or a line in space.
  const d = stage.frame.d, normals = rows.map((row) => [...row, 0, 0].slice(0, 3));
  const along = directions(normals, d), [low, high] = extents(stage, along);
  pen.strokeStyle = pen.fillStyle = stage.theme.bad;
  for (const level of levels) {
    const foot = footOf(normals, level);
    const moved = (k, shares) => along.reduce((sum, direction, j) => sum + direction[k] * (shares[j] ? high : low)[j], 0);
    const corner = (...shares) => stage.toScreen(...foot.map((x, k) => x + moved(k, shares)));
    const ends = along.length === 1 ? [[0], [1]] : [[0, 0], [1, 0], [1, 1], [0, 1]];
    const corners = ends.map((shares) => corner(...shares));
    polygon(pen, corners);
    pen.globalAlpha = 0.75;
    pen.lineWidth = along.length === 1 ? 1.8 : 1.2;
    pen.stroke();
    pen.globalAlpha = 0.1;
    if (along.length > 1) pen.fill();
  }
  pen.globalAlpha = 1;
}

function directions(normals, d) {
  // Unit vectors that span the orthogonal complement of the normals.
  if (d === 2) return [[-normals[0][1], normals[0][0], 0]];
  if (normals.length === 2) return [unit(cross(normals[0], normals[1]))];
  const other = Math.abs(normals[0][0]) < 0.7 ? [1, 0, 0] : [0, 1, 0], first = unit(cross(normals[0], other));
  return [first, cross(normals[0], first)];
}

function extents(stage, along) {
  // Extent of the tokens along each direction, with a margin.
  const low = along.map(() => Infinity), high = along.map(() => -Infinity), { points } = stage;
  for (let i = 0; i < stage.frame.n; i++) {
    for (const [j, direction] of along.entries()) {
      const at = direction[0] * points[3 * i] + direction[1] * points[3 * i + 1] + direction[2] * points[3 * i + 2];
      if (at < low[j]) low[j] = at;
      if (at > high[j]) high[j] = at;
    }
  }
  const room = along.map((_, j) => 0.08 * (high[j] - low[j]) || 0.1);
  return [low.map((one, j) => one - room[j]), high.map((one, j) => one + room[j])];
}

function footOf(normals, level) {
  // The point in the span of the normals (unit vectors) that has the given levels.
  if (normals.length === 1) return normals[0].map((one) => level[0] * one);
  const lean = dot(normals[0], normals[1]), rest = 1 - lean * lean;
  const [a, b] = [(level[0] - lean * level[1]) / rest, (level[1] - lean * level[0]) / rest];
  return normals[0].map((one, k) => a * one + b * normals[1][k]);
}

function polygon(pen, points) {
  pen.beginPath();
  for (const [k, [x, y]] of points.entries()) pen[k ? "lineTo" : "moveTo"](x, y);
  pen.closePath();
}

const unit = (a) => { const size = Math.hypot(...a) || 1; return a.map((one) => one / size); };
