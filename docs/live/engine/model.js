// A model and its first tokens from settings in words and numbers, as the library's `scenarios.build` makes them.

import { Random, exponential } from "./wasm.js";
import { Refused, installSentence, limits, parsed, refuseUnknown, split } from "./words.js";
import { identity, inverse, orthonormal, product, scaled, sum, transposed } from "./matrices.js";

const UNLIMITED = 2 ** 40; // positions that a token sees before or after its own
const LEAST = { n: 1, d: 1, heads: 1, seed: 0 };
const REMOVED = ["redraw", "mlp", "kappa"]; // settings of models that this engine does not integrate

export function changed(settings, changes) {
  // Settings with changes, checked; a `start` that lists its tokens sets n.
  for (const name of Object.keys(changes)) if (!(name in settings)) throw new Refused(`\`setting\` '${name}' is not known.`);
  for (const name of REMOVED) if (changes[name] != null) throw new Refused(`\`${name}\` is not offered on this page. ${installSentence()}`);
  const given = Object.entries(changes).filter(([name, value]) => name !== "runs" && (value !== null || name === "solver"));
  const result = { ...settings, ...Object.fromEntries(given), runs: null };
  if (result.start.startsWith("angles:")) result.n = parsed(result.start, "start", result.d).numbers.length;
  requireNumbers(result);
  if ("beta" in changes && result.attention.startsWith("hardmax")) throw new Refused("`beta` would change nothing here: hardmax has no temperature. Leave it out.");
  const [solver] = split(result.solver ?? "tsit5");
  for (const name of ["rtol", "atol"]) if (name in changes && solver !== "tsit5") throw new Refused(`\`${name}\` would change nothing here: the solver '${solver}' has fixed steps. Leave it out.`);
  return result;
}

function requireNumbers(settings) {
  for (const [name, least] of Object.entries(LEAST)) {
    const value = settings[name], most = limits()[name] ?? Number.MAX_SAFE_INTEGER;
    if (!Number.isInteger(value) || value < least) throw new Refused(`\`${name}\` must be a whole number, at least ${least}, but it is ${value}.`);
    if (value > most) throw new Refused(`\`${name}\` must be at most ${most} on this page, but it is ${value}. Choose less. ${installSentence()}`);
  }
  for (const name of ["end", "rtol", "atol"]) {
    if (!(Number.isFinite(settings[name]) && settings[name] > 0)) throw new Refused(`\`${name}\` must be above zero, but it is ${settings[name]}.`);
  }
  if (settings.rtol < 1e-14) throw new Refused("`rtol` must be at least 1e-14, which float64 resolves. Use 1e-8.");
  if (!Number.isFinite(settings.beta)) throw new Refused(`\`beta\` must be one finite number, but it is ${settings.beta}.`);
  refuseUnknown(settings.spacing, ["linear", "log"], "spacing");
}

export function build(settings) {
  // The model: space, heads, attention, mask, normalisation and solver.
  const { d, n, space } = settings;
  parsed(space, "space", d);
  const isSphere = space === "sphere", scheme = parsed(settings.normalisation, "normalisation", d);
  if (!isSphere && scheme.name !== "post") throw new Refused(`\`normalisation\` '${settings.normalisation}' belongs to the sphere, but the space is '${space}'. Use the sphere, or leave the normalisation out.`);
  const alpha = scheme.name === "ngpt" ? scheme.numbers[0] : 1;
  if (!(alpha > 0)) throw new Refused(`\`alpha\` must be above zero, but it is ${alpha}.`);
  const heads = headsOf(settings), value = heads.map((head) => head.value).reduce(sum);
  return {
    space, n, d, isSphere, heads, value, attention: attentionOf(settings), ...maskOf(settings),
    normalisation: { name: scheme.name, alpha }, solver: solverOf(settings),
    frameAt: (time) => exponential(value, time), // of rescaled tokens z = e^{-tV} x
  };
}

function attentionOf({ attention, beta, d }) {
  const { name, numbers } = parsed(attention, "attention", d);
  const tolerance = name === "hardmax" ? numbers[0] : 0;
  if (name === "hardmax" && !(tolerance > 0)) throw new Refused(`\`tolerance\` must be above zero, but it is ${tolerance}.`);
  return { name, beta: name === "hardmax" ? null : beta, offset: name === "unnormalised" ? numbers[0] : 0, tolerance };
}

function maskOf({ mask, d }) {
  // How many positions before and after its own a token sees.
  const reach = [UNLIMITED, UNLIMITED], masks = mask.split("+").map((part) => parsed(part, "mask", d));
  for (const { name, numbers } of masks) {
    const [before, after] = { full: [UNLIMITED, UNLIMITED], causal: [UNLIMITED, 0], window: [numbers[0], numbers[0]] }[name];
    if (name === "window" && before < 0) throw new Refused(`\`width\` must be a whole number, at least 0, but it is ${before}.`);
    [reach[0], reach[1]] = [Math.min(reach[0], before), Math.min(reach[1], after)];
  }
  return { reach, masks, isCausal: reach[1] <= 0 };
}

function solverOf({ solver, attention, rtol, atol, d }) {
  const { name, numbers } = parsed(solver ?? "tsit5", "solver", d);
  const minStep = solver === null && attention.startsWith("hardmax") ? limits().minStepAtJumps : 0;
  const step = name === "tsit5" ? null : numbers[0];
  if (step !== null && !(step > 0)) throw new Refused(`\`step\` must be above zero, but it is ${step}.`);
  return { name, rtol, atol, minStep, step };
}

function headsOf({ heads, query_key: queryKey, value, d, seed }) {
  return Array.from({ length: heads }, (_, head) => ({
    queryKey: matrixOf(queryKey, d, [seed, [0, head, 0]], "query_key"),
    value: matrixOf(value, d, [seed, [0, head, 1]], "value"),
  }));
}

const square = (numbers, d) => Array.from({ length: d }, (_, i) => Array.from(numbers.slice(i * d, (i + 1) * d)));

function diagonalBlocks(reals, pairs) {
  // The block diagonal matrix of real eigenvalues, then of complex pairs [real, imaginary].
  const d = reals.length + 2 * pairs.length, matrix = scaled(identity(d), 0);
  reals.forEach((real, i) => { matrix[i][i] = real; });
  pairs.forEach(([real, imaginary], k) => {
    const i = reals.length + 2 * k;
    [matrix[i][i], matrix[i][i + 1], matrix[i + 1][i], matrix[i + 1][i + 1]] = [real, -imaginary, imaginary, real];
  });
  return matrix;
}

function matrixOf(text, d, seed, setting) {
  const { name, numbers, word } = parsed(text, setting, d);
  const gaussian = () => square(new Random(...seed).normals(d * d), d);
  const inBasis = (basis) => product(product(basis, diagonalBlocks(numbers, [])), inverse(basis));
  if (word.entries) return square(word.entries, d);
  switch (name) {
    case "identity": return identity(d);
    case "minus-identity": return scaled(identity(d), -1);
    case "jordan": return identity(d).map((row, i) => row.map((entry, j) => entry * numbers[0] + (j === i + 1 ? 1 : 0)));
    case "diagonal": return diagonalBlocks(numbers, []);
    case "eigenvalues": return inBasis(orthonormal(gaussian()));
    case "eigenvalues-random": return inBasis(gaussian());
    case "matrix": return square(numbers, d);
    case "perron-frobenius": return square(new Random(...seed).uniforms(d * d).map((x) => 1 - x), d);
    case "gaussian": return scaled(gaussian(), 1 / Math.sqrt(d));
    case "goe": {
      const entries = scaled(gaussian(), 1 / Math.sqrt(d)), turned = transposed(entries);
      return entries.map((row, i) => row.map((entry, j) => (entry + turned[i][j]) / Math.SQRT2));
    }
    case "pair": return pairMatrix(numbers, d);
    default: throw new Refused(`\`${setting}\` '${name}' is not known on this page. ${installSentence()}`);
  }
}

function pairMatrix([real, imaginary], d) {
  if (d < 2) throw new Refused("`pair` is a complex pair, which needs d of at least 2. Choose another word.");
  if (imaginary === 0) return diagonalBlocks([real, real, ...new Array(d - 2).fill(real / 2)], []);
  return diagonalBlocks(new Array(d - 2).fill(real / 2), [[real, Math.abs(imaginary)]]);
}

export function firstTokens(settings, placed) {
  // The first tokens, row after row: drawn as the library draws them, or placed by hand.
  const { n, d, space } = settings, isSphere = space === "sphere";
  if (placed) return placedTokens(placed, n, d, isSphere);
  const { name, numbers } = parsed(settings.start, "start", d), random = new Random(settings.seed, [1]);
  if (isSphere && ["box", "ball", "gaussian"].includes(name)) throw new Refused(`Tokens of the sphere have length 1, but those of \`start\` '${name}' have not. Use 'sphere'.`);
  switch (name) {
    case "box": {
      const [low, high] = numbers;
      if (!(low < high)) throw new Refused(`\`low\` must be below \`high\`, but they are ${low} and ${high}.`);
      return random.uniforms(n * d).map((x) => low + (high - low) * x);
    }
    case "ball": {
      const lengths = random.uniforms(n).map((x) => positive(numbers[0], "radius") * x ** (1 / d));
      return unit(random.normals(n * d), d).map((x, k) => lengths[Math.floor(k / d)] * x);
    }
    case "gaussian": return random.normals(n * d).map((x) => positive(numbers[0], "deviation") * x);
    case "circle": return onCircle(random.uniforms(n).map((x) => 2 * Math.PI * x), d);
    case "angles": return onCircle(numbers, d);
    case "hemisphere": return unit(random.normals(n * d), d).map((x, k) => (k % d === d - 1 ? Math.abs(x) : x));
    default: return unit(random.normals(n * d), d);
  }
}

function positive(value, name) {
  if (!(value > 0)) throw new Refused(`\`${name}\` must be above zero, but it is ${value}.`);
  return value;
}

function placedTokens(placed, n, d, isSphere) {
  if (placed.length !== n || placed.some((row) => row.length !== d || !row.every(Number.isFinite))) throw new Refused(`\`tokens\` must be ${n} places of ${d} coordinates, but they are not.`);
  if (!isSphere) return Float64Array.from(placed.flat());
  if (placed.some((row) => !row.some((x) => x !== 0))) throw new Refused("A token on the sphere must have a direction, but one of `tokens` is zero.");
  return unit(Float64Array.from(placed.flat()), d);
}

function onCircle(angles, d) {
  if (d < 2) throw new Refused(`\`d\` must be at least 2 for tokens on a circle, but it is ${d}.`);
  const tokens = new Float64Array(angles.length * d);
  angles.forEach((angle, i) => { [tokens[i * d], tokens[i * d + 1]] = [Math.cos(angle), Math.sin(angle)]; });
  return tokens;
}

function unit(tokens, d) {
  for (let i = 0; i < tokens.length; i += d) {
    const length = Math.sqrt(tokens.subarray(i, i + d).reduce((sum, x) => sum + x * x, 0));
    for (let c = i; c < i + d; c++) tokens[c] /= length;
  }
  return tokens;
}
