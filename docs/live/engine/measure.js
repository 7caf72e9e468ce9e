// What the panels show of a frame, with the definitions of the library's `explorer/measure`.

import { labelsOf, squaredDistance } from "./clusters.js";
import { eigenvalues, eigenvector, rank, symmetricEigenvectors, transposed } from "./matrices.js";

const BINS = 48; // of the histogram of cosines, equal parts of [-1, 1]
const MAX_SIDE = 256; // rows and columns of an attention image
const MAX_ATTENDED = 24, MIN_WEIGHT = 1e-4; // of a row
const LARGEST_BETA = 1e12; // beyond it rounding of <x, y> changes beta <x, y> by more than 1e-4
const EQUAL = 1e-8; // times |V|, of eigenvalues that count as equal
const MAX_HYPERPLANES = 3;

const isFinite = (tokens) => tokens.every(Number.isFinite);
const lengthOf = (tokens, d, i) => Math.sqrt(tokens.subarray(i * d, (i + 1) * d).reduce((total, x) => total + x * x, 0));
const meanLength = (tokens, d) => { let total = 0; for (let i = 0; i < tokens.length / d; i++) total += lengthOf(tokens, d, i); return (total * d) / tokens.length; };

function innerProduct(tokens, d, i, j) {
  let total = 0;
  for (let c = 0; c < d; c++) total += tokens[i * d + c] * tokens[j * d + c];
  return total;
}

export function heightName(model) {
  if (!model.isSphere) return "size";
  return model.attention.beta === 0 ? "order" : "energy";
}

export function height(model, tokens, first) {
  // Energy n^-2 sum_ij e^{beta (<x_i, x_j> - 1)}, length of the mean token, or mean length over that of the first tokens.
  const { d, n } = model, name = heightName(model), beta = model.attention.beta ?? 1; // hardmax has no beta
  if (!isFinite(tokens) || (name === "energy" && Math.abs(beta) > LARGEST_BETA)) return null;
  if (name === "size") return meanLength(tokens, d) / (meanLength(first, d) || 1);
  if (name === "order") {
    const mean = new Float64Array(d);
    tokens.forEach((x, k) => { mean[k % d] += x / n; });
    return Math.hypot(...mean);
  }
  let total = 0;
  for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) total += Math.exp(beta * (innerProduct(tokens, d, i, j) - 1));
  return total / (n * n);
}

export function cosines(tokens, d) {
  // Shares of the pairs of distinct tokens in each bin; empty for one token.
  const n = tokens.length / d, counts = new Array(BINS).fill(0), units = Float64Array.from(tokens);
  for (let i = 0; i < n; i++) { const length = lengthOf(tokens, d, i) || 1; for (let c = 0; c < d; c++) units[i * d + c] /= length; }
  if (n < 2 || !isFinite(units)) return [];
  for (let i = 0; i < n; i++) for (let j = 0; j < i; j++) counts[Math.max(Math.min(Math.trunc((innerProduct(units, d, i, j) + 1) * (BINS / 2)), BINS - 1), 0)] += 2;
  return counts.map((count) => Number((count / (n * (n - 1))).toFixed(5)));
}

export function attentionRows(model, tokens, time, rows) {
  // Attention weights of some rows, averaged over heads; null if some token is not finite.
  if (!isFinite(tokens)) return null;
  const { n, d, heads } = model, total = rows.map(() => new Float64Array(n));
  const frame = model.space === "rescaled" ? model.frameAt(time) : null; // e^{tV} = e^{logScale} matrix
  const seen = frame ? applied(frame.matrix, tokens, d) : tokens;
  for (const { queryKey } of heads) {
    const keys = applied(queryKey, seen, d);
    rows.forEach((i, place) => {
      const weights = rowWeights(model, seen, keys, i, frame ? 2 * frame.logScale : 0);
      for (let j = 0; j < n; j++) total[place][j] += weights[j] / heads.length;
    });
  }
  return total;
}

function rowWeights(model, tokens, keys, i, logScale) {
  const { n, d, attention, reach } = model, weights = new Float64Array(n), begin = Math.max(0, i - reach[0]), end = Math.min(n, i + reach[1] + 1);
  let largest = -Infinity, size = 0;
  for (let j = begin; j < end; j++) {
    for (let c = 0; c < d; c++) weights[j] += tokens[i * d + c] * keys[j * d + c];
    [largest, size] = [Math.max(largest, (attention.beta ?? 1) * weights[j]), Math.max(size, Math.abs(weights[j]))];
  }
  const scale = Math.exp(attention.name === "unnormalised" ? logScale : Math.min(logScale, Math.log(Number.MAX_VALUE) - 1));
  let total = 0;
  for (let j = begin; j < end; j++) {
    if (attention.name === "hardmax") weights[j] = weights[j] >= largest - attention.tolerance * size ? 1 : 0;
    else if (attention.name === "softmax") weights[j] = Math.exp(scale * (attention.beta * weights[j] - largest));
    else weights[j] = Math.exp(attention.beta * (scale * weights[j] - attention.offset));
    total += weights[j];
  }
  const divisor = attention.name === "unnormalised" ? n : total || 1;
  for (let j = begin; j < end; j++) weights[j] /= divisor;
  return weights;
}

function applied(matrix, tokens, d) {
  const result = new Float64Array(tokens.length);
  for (let i = 0; i < tokens.length; i += d) for (let r = 0; r < d; r++) for (let c = 0; c < d; c++) result[i + r] += matrix[r][c] * tokens[i + c];
  return result;
}

export function attentionImage(model, tokens, time) {
  // P(t) in at most MAX_SIDE blocks: the row of each block's middle token, with the columns of a block summed.
  const { n } = model, side = Math.min(n, MAX_SIDE), middles = Array.from({ length: side }, (_, k) => Math.floor(((2 * k + 1) * n) / (2 * side)));
  const rows = attentionRows(model, tokens, time, middles);
  if (!rows) return null;
  const weights = new Float32Array(side * side), sums = new Float64Array(side);
  rows.forEach((row, k) => {
    sums.fill(0);
    row.forEach((weight, j) => { sums[Math.floor((j * side) / n)] += weight; });
    weights.set(sums, k * side);
  });
  return { side, weights };
}

export function attended(model, tokens, time, token) {
  const rows = attentionRows(model, tokens, time, [token]);
  if (!rows) return [];
  const order = [...rows[0].keys()].sort((a, b) => rows[0][b] - rows[0][a]).slice(0, MAX_ATTENDED);
  return order.filter((j) => rows[0][j] > MIN_WEIGHT).map((j) => [j, Number(rows[0][j].toFixed(6))]);
}

export function renyiCentres(model, tokens) {
  // Tokens farther than 4 / sqrt(beta) from all earlier centres, for causal attention on the sphere.
  const { n, d, attention, isCausal, isSphere } = model;
  if (!(attention.beta > 0) || !isCausal || !isSphere || d < 2) return [];
  const delta = Math.min(4 / Math.sqrt(attention.beta), Math.PI), found = [];
  for (let i = 0; i < n; i++) {
    const angle = (j) => 2 * Math.asin(Math.min(Math.sqrt(squaredDistance(tokens, d, i, j)) / 2, 1));
    if (!found.some((j) => angle(j) <= delta)) found.push(i);
  }
  return found;
}

export function principalAxes(tokens, d) {
  // Up to three orthonormal directions of largest variance, each with its largest entry positive.
  const n = tokens.length / d, mean = new Float64Array(d);
  tokens.forEach((x, k) => { mean[k % d] += x / n; });
  const covariance = Array.from({ length: d }, (_, r) => Array.from({ length: d }, (_, c) => {
    let total = 0;
    for (let i = 0; i < n; i++) total += (tokens[i * d + r] - mean[r]) * (tokens[i * d + c] - mean[c]);
    return total;
  }));
  return symmetricEigenvectors(covariance).vectors.slice(0, 3).map(withLargestPositive);
}

function withLargestPositive(vector) {
  const largest = vector.reduce((best, x) => (Math.abs(x) > Math.abs(best) ? x : best), 0);
  return largest < 0 ? vector.map((x) => -x) : vector;
}

export function spectrumOf(value) {
  // Eigenvalues by falling real part, and of the leading one: whether it is real, its multiplicity, whether it is defective.
  const found = eigenvalues(value).sort(([a, b], [c, d]) => c - a || d - b);
  const size = Math.max(...value.map((row) => Math.hypot(...row))) || 1;
  const leaders = found.filter(([real]) => real >= found[0][0] - 1e-6 * size); // copies of a defective one scatter
  const isReal = leaders.every(([, imaginary]) => Math.abs(imaginary) <= 1e-6 * size);
  const mean = leaders.reduce((total, [real]) => total + real, 0) / leaders.length;
  const areEqual = leaders.length === 1 || isCopy(value, mean, leaders, size);
  const multiplicity = areEqual ? leaders.length : 1;
  const geometric = multiplicity === 1 ? 1 : value.length - rank(value.map((row, i) => row.map((x, j) => x - (i === j ? mean : 0))), 1e-7 * size);
  return { values: found, lead: multiplicity > 1 ? mean : found[0][0], isReal, isSimple: isReal && multiplicity === 1, multiplicity, isDefective: geometric < multiplicity };
}

function isCopy(value, mean, leaders, size) {
  // Whether eigenvalues that are close are one: equal up to rounding, or those of a defective matrix.
  const scatter = Math.max(...leaders.map(([real, imaginary]) => Math.hypot(real - mean, imaginary)));
  return scatter <= EQUAL * size || rank(value.map((row, i) => row.map((x, j) => x - (i === j ? mean : 0))), 1e-7 * size) < value.length;
}

export function leadingDirection(model) {
  const { heads, d } = model;
  if (heads.length > 1 || d < 2) return null;
  const spectrum = spectrumOf(heads[0].value);
  return spectrum.isSimple ? eigenvector(heads[0].value, spectrum.values[0]).map(([x]) => x) : null;
}

export function subspaces(model, tokens, distance) {
  // The few parallel lines, planes or higher subspaces on which rescaled tokens lie; null where there are none.
  if (model.space !== "rescaled" || model.d < 2 || !isFinite(tokens)) return null;
  const { value } = model;
  for (const [codimension, most] of codimensions(spectrumOf(value), model)) {
    const rows = leftEigenvectors(value).slice(0, codimension);
    const found = groupsOf(tokens, model, rows, distance);
    if (found.widest <= 2 * distance && found.levels.length <= most) return { rows, levels: found.levels };
  }
  return null;
}

function codimensions(spectrum, { n, d }) {
  // Codimensions of subspaces that tokens may gather on, the highest first, each with the most subspaces.
  if (!spectrum.isReal || spectrum.lead <= 0 || spectrum.isDefective) return [];
  if (!spectrum.isSimple) return spectrum.multiplicity < d ? [[spectrum.multiplicity, Math.floor(n / 2)]] : [];
  const growing = Math.min(spectrum.values.filter(([real]) => real > 0).length, d - 1);
  return Array.from({ length: growing }, (_, k) => [growing - k, Math.min(MAX_HYPERPLANES, n - 1)]).filter(([k]) => spectrum.values[k - 1][1] <= 0);
}

function leftEigenvectors(value) {
  // Real unit rows by falling real part of the eigenvalue; a complex pair has two, real and imaginary part. Equal
  // eigenvalues have orthonormal rows.
  const turned = transposed(value), { values } = spectrumOf(value), rows = [];
  for (const [real, imaginary] of values) {
    const copies = rows.filter((row) => imaginary === 0 && Math.abs(row.eigenvalue - real) <= EQUAL * (1 + Math.abs(real)));
    let entries = eigenvector(turned, [real, Math.abs(imaginary)], copies.length).map((entry) => entry[imaginary < 0 ? 1 : 0]);
    for (const copy of copies) { const along = entries.reduce((total, x, k) => total + x * copy.entries[k], 0); entries = entries.map((x, k) => x - along * copy.entries[k]); }
    const length = Math.hypot(...entries);
    rows.push({ eigenvalue: real, entries: withLargestPositive(entries.map((x) => x / length)) });
  }
  return rows.map(({ entries }) => entries);
}

function groupsOf(tokens, { n, d }, rows, distance) {
  // Groups of tokens by their coordinates along the rows: mean coordinates, and the largest distance from a mean.
  const k = rows.length, coordinates = new Float64Array(n * k);
  for (let i = 0; i < n; i++) rows.forEach((row, r) => { for (let c = 0; c < d; c++) coordinates[i * k + r] += row[c] * tokens[i * d + c]; });
  const { labels, count } = labelsOf(coordinates, k, distance), sizes = new Array(count).fill(0);
  const levels = Array.from({ length: count }, () => new Array(k).fill(0));
  labels.forEach((label, i) => { sizes[label] += 1; levels[label].forEach((_, r) => { levels[label][r] += coordinates[i * k + r]; }); });
  levels.forEach((level, label) => level.forEach((_, r) => { level[r] /= sizes[label]; }));
  let widest = 0;
  labels.forEach((label, i) => { widest = Math.max(widest, Math.hypot(...levels[label].map((x, r) => x - coordinates[i * k + r]))); });
  return { levels: levels.sort((a, b) => a.reduce((order, x, r) => order || x - b[r], 0)), widest };
}
