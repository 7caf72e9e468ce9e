// Small real matrices, as rows: products, inverses, eigenvalues and eigenvectors.

export const identity = (d) => Array.from({ length: d }, (_, i) => Array.from({ length: d }, (_, j) => (i === j ? 1 : 0)));
export const scaled = (matrix, factor) => matrix.map((row) => row.map((entry) => factor * entry));
export const transposed = (matrix) => matrix[0].map((_, j) => matrix.map((row) => row[j]));
export const sum = (first, second) => first.map((row, i) => row.map((entry, j) => entry + second[i][j]));
const dot = (first, second) => first.reduce((total, x, k) => total + x * second[k], 0);

export function product(first, second) {
  const columns = transposed(second);
  return first.map((row) => columns.map((column) => dot(row, column)));
}

export function isMultipleOfIdentity(matrix, factor) {
  return matrix.every((row, i) => row.every((entry, j) => entry === (i === j ? factor : 0)));
}

export function inverse(matrix) {
  // Gaussian elimination with the largest entry of a column as pivot.
  const d = matrix.length, rows = matrix.map((row, i) => [...row, ...identity(d)[i]]);
  for (let k = 0; k < d; k++) {
    const pivot = rows.reduce((best, row, i) => (i >= k && Math.abs(row[k]) > Math.abs(rows[best][k]) ? i : best), k);
    [rows[k], rows[pivot]] = [rows[pivot], rows[k]];
    rows[k] = rows[k].map((entry) => entry / rows[k][k]);
    for (let i = 0; i < d; i++) if (i !== k) { const factor = rows[i][k]; rows[i] = rows[i].map((entry, j) => entry - factor * rows[k][j]); }
  }
  return rows.map((row) => row.slice(d));
}

export function orthonormal(matrix) {
  // The factor Q of the decomposition by Householder reflections, with the signs of LAPACK: a reflection turns each column
  // to minus the sign of its first entry.
  const d = matrix.length, r = matrix.map((row) => [...row]);
  let q = identity(d);
  for (let k = 0; k < d - 1; k++) {
    const column = r.map((row, i) => (i < k ? 0 : row[k])), length = Math.hypot(...column);
    if (length === 0) continue;
    column[k] += column[k] >= 0 ? length : -length;
    const factor = 2 / dot(column, column);
    const reflect = (rows) => rows.map((row) => { const along = factor * dot(row, column); return row.map((entry, j) => entry - along * column[j]); });
    q = reflect(q);
    transposed(reflect(transposed(r))).forEach((row, i) => { r[i] = row; });
  }
  return q;
}

// Complex numbers as pairs [real, imaginary].
const times = ([a, b], [c, d]) => [a * c - b * d, a * d + b * c];
const minus = ([a, b], [c, d]) => [a - c, b - d];
const over = ([a, b], [c, d]) => { const size = c * c + d * d; return [(a * c + b * d) / size, (b * c - a * d) / size]; };
const size = ([a, b]) => Math.hypot(a, b);
const root = ([a, b]) => {
  const length = Math.hypot(a, b), real = Math.sqrt((length + Math.abs(a)) / 2);
  if (real === 0) return [0, 0];
  return a >= 0 ? [real, b / (2 * real)] : [Math.abs(b) / (2 * real), b < 0 ? -real : real];
};

const MAX_SWEEPS = 400; // of shifted QR steps; a matrix of size 8 takes about 20
const EPSILON = 2 ** -52;

export function eigenvalues(matrix) {
  // By the QR algorithm with Wilkinson's shifts in complex numbers; imaginary parts of rounding size are zero, and complex
  // eigenvalues come in conjugate pairs.
  const a = matrix.map((row) => row.map((entry) => [entry, 0])), found = [];
  const largest = Math.max(...matrix.flat().map(Math.abs)) || 1;
  for (let last = a.length - 1, sweep = 0; last >= 0 && sweep < MAX_SWEEPS; ) {
    const isSplit = a[last].slice(0, last).every((entry) => size(entry) <= EPSILON * largest);
    if (isSplit) { found.push(a[last][last]); last -= 1; sweep = 0; continue; }
    qrStep(a, last + 1, shiftOf(a, last, sweep));
    sweep += 1;
  }
  return conjugatePairs(found, 1e-9 * largest);
}

function shiftOf(a, last, sweep) {
  // The eigenvalue of the last 2 x 2 block that is nearer to its last entry.
  const [p, q, r, s] = [a[last - 1][last - 1], a[last - 1][last], a[last][last - 1], a[last][last]];
  if (sweep % 11 === 10) return [s[0] + size(r), s[1]]; // an exceptional shift, should the usual ones go round in a circle
  const half = [(p[0] - s[0]) / 2, (p[1] - s[1]) / 2], square = times(half, half), mixed = times(q, r);
  const distance = root([square[0] + mixed[0], square[1] + mixed[1]]);
  const [one, other] = [[half[0] + distance[0], half[1] + distance[1]], minus(half, distance)];
  const nearer = size(one) < size(other) ? one : other;
  return [s[0] + nearer[0], s[1] + nearer[1]];
}

function qrStep(a, count, shift) {
  // A := R Q + shift of the first `count` rows and columns, A - shift = Q R by Gram and Schmidt.
  const columns = Array.from({ length: count }, (_, j) => Array.from({ length: count }, (_, i) => (i === j ? minus(a[i][j], shift) : a[i][j])));
  const q = [], r = columns.map(() => columns.map(() => [0, 0]));
  columns.forEach((column, j) => {
    let rest = column;
    for (let turn = 0; turn < 2; turn++) {
      q.forEach((unit, k) => {
        const along = unit.reduce(([x, y], u, i) => { const [c, d] = times([u[0], -u[1]], rest[i]); return [x + c, y + d]; }, [0, 0]);
        r[k][j] = [r[k][j][0] + along[0], r[k][j][1] + along[1]];
        rest = rest.map((entry, i) => minus(entry, times(unit[i], along)));
      });
    }
    const length = Math.sqrt(rest.reduce((total, [x, y]) => total + x * x + y * y, 0));
    r[j][j] = [length, 0];
    q.push(length > 1e-300 ? rest.map(([x, y]) => [x / length, y / length]) : missingUnit(q, count));
  });
  for (let i = 0; i < count; i++) for (let j = 0; j < count; j++) {
    let total = i === j ? shift : [0, 0];
    for (let k = 0; k < count; k++) { const [x, y] = times(r[i][k], q[j][k]); total = [total[0] + x, total[1] + y]; }
    a[i][j] = total;
  }
}

function missingUnit(q, count) {
  // A unit vector orthogonal to those in q, of which there are fewer than `count`.
  for (let axis = 0; axis < count; axis++) {
    let rest = Array.from({ length: count }, (_, i) => [i === axis ? 1 : 0, 0]);
    for (let turn = 0; turn < 2; turn++) for (const unit of q) {
      const along = unit.reduce(([x, y], u, i) => { const [c, d] = times([u[0], -u[1]], rest[i]); return [x + c, y + d]; }, [0, 0]);
      rest = rest.map((entry, i) => minus(entry, times(unit[i], along)));
    }
    const length = Math.sqrt(rest.reduce((total, [x, y]) => total + x * x + y * y, 0));
    if (length > 0.5 / Math.sqrt(count)) return rest.map(([x, y]) => [x / length, y / length]);
  }
  return Array.from({ length: count }, () => [0, 0]);
}

function conjugatePairs(found, rounding) {
  const reals = found.filter(([, y]) => Math.abs(y) <= rounding).map(([x]) => [x, 0]);
  const upper = found.filter(([, y]) => y > rounding);
  return [...reals, ...upper.flatMap(([x, y]) => [[x, y], [x, -y]])];
}

export function rank(matrix, tolerance) {
  // The number of pivots above the tolerance in an elimination with the largest entry left as pivot.
  const rows = matrix.map((row) => [...row]);
  let found = 0;
  for (; found < rows.length; found++) {
    let [best, i, j] = [tolerance, -1, -1];
    for (let k = found; k < rows.length; k++) for (let c = found; c < rows.length; c++) if (Math.abs(rows[k][c]) > best) [best, i, j] = [Math.abs(rows[k][c]), k, c];
    if (i < 0) break;
    [rows[found], rows[i]] = [rows[i], rows[found]];
    for (const row of rows) [row[found], row[j]] = [row[j], row[found]];
    for (let k = found + 1; k < rows.length; k++) {
      const factor = rows[k][found] / rows[found][found];
      for (let c = found; c < rows.length; c++) rows[k][c] -= factor * rows[found][c];
    }
  }
  return found;
}

export function eigenvector(matrix, [real, imaginary], copy = 0) {
  // A unit eigenvector by inverse iteration, as real and imaginary parts; `copy` counts those of a multiple eigenvalue. The
  // shift is off by little, so that the system has a solution.
  const d = matrix.length, off = 1e-10 * (Math.max(...matrix.flat().map(Math.abs)) || 1);
  const a = matrix.map((row, i) => row.map((entry, j) => [entry - (i === j ? real + off : 0), i === j ? -imaginary : 0]));
  let vector = Array.from({ length: d }, (_, i) => [Math.cos((copy + 1) * (i + 0.3)), imaginary === 0 ? 0 : 0.3 * i]);
  for (let turn = 0; turn < 3; turn++) {
    vector = solved(a, vector);
    const length = Math.sqrt(vector.reduce((total, [x, y]) => total + x * x + y * y, 0));
    vector = vector.map(([x, y]) => [x / length, y / length]);
  }
  return vector;
}

function solved(matrix, right) {
  const d = matrix.length, rows = matrix.map((row, i) => [...row, right[i]]);
  for (let k = 0; k < d; k++) {
    const pivot = rows.reduce((best, row, i) => (i >= k && size(row[k]) > size(rows[best][k]) ? i : best), k);
    [rows[k], rows[pivot]] = [rows[pivot], rows[k]];
    for (let i = k + 1; i < d; i++) { const factor = over(rows[i][k], rows[k][k]); for (let j = k; j <= d; j++) rows[i][j] = minus(rows[i][j], times(factor, rows[k][j])); }
  }
  const x = new Array(d);
  for (let i = d - 1; i >= 0; i--) {
    let rest = rows[i][d];
    for (let j = i + 1; j < d; j++) rest = minus(rest, times(rows[i][j], x[j]));
    x[i] = over(rest, rows[i][i]);
  }
  return x;
}

export function symmetricEigenvectors(matrix) {
  // Eigenvalues and eigenvectors (rows) of a symmetric matrix by Jacobi's rotations, the largest eigenvalue first.
  const d = matrix.length, a = matrix.map((row) => [...row]), vectors = identity(d);
  for (let sweep = 0; sweep < 60; sweep++) for (let p = 0; p < d; p++) for (let q = p + 1; q < d; q++) {
    if (a[p][q] === 0) continue;
    const angle = Math.atan2(2 * a[p][q], a[q][q] - a[p][p]) / 2, [c, s] = [Math.cos(angle), Math.sin(angle)];
    for (let k = 0; k < d; k++) [a[k][p], a[k][q]] = [c * a[k][p] - s * a[k][q], s * a[k][p] + c * a[k][q]];
    for (let k = 0; k < d; k++) [a[p][k], a[q][k]] = [c * a[p][k] - s * a[q][k], s * a[p][k] + c * a[q][k]];
    for (let k = 0; k < d; k++) [vectors[p][k], vectors[q][k]] = [c * vectors[p][k] - s * vectors[q][k], s * vectors[p][k] + c * vectors[q][k]];
  }
  const order = a.map((_, i) => i).sort((i, j) => a[j][j] - a[i][i]);
  return { values: order.map((i) => a[i][i]), vectors: order.map((i) => vectors[i]) };
}
