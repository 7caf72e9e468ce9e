// Numbers as texts: times up to 10⁴⁰ and beyond, eigenvalues, shares.

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
const LARGEST_PLAIN = 1e5, SMALLEST_PLAIN = 1e-3; // numbers beyond are written with a power of ten

export function timeText(time, isLog) {
  // The text of a time; with `isLog` it is given by its natural logarithm, since it may exceed all floats.
  if (!isLog) return written(time);
  if (time === null || time === -Infinity) return "0";
  return Math.abs(time) < Math.log(LARGEST_PLAIN) ? written(Math.exp(time)) : scientific(time / Math.LN10);
}

function written(value) {
  if (!Number.isFinite(value)) return "∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= SMALLEST_PLAIN && size < LARGEST_PLAIN ? value.toPrecision(4).replace(/e.*/, "") : scientific(Math.log10(size));
}

function scientific(decades) {
  let power = Math.floor(decades), mantissa = (10 ** (decades - power)).toFixed(2);
  if (mantissa === "10.00") [mantissa, power] = ["1.00", power + 1];
  return `${mantissa} × 10${raised(power)}`;
}

export function lowered(index) { return [...String(index)].map((one) => "₀₁₂₃₄₅₆₇₈₉"[one]).join(""); }

export function raised(power) { return [...String(power)].map((one) => RAISED[one]).join(""); }

export const numberOf = (value) => (value === null || value === undefined ? null : Number(value)); // also of "Infinity"

export function brief(value) {
  if (Number.isNaN(value)) return "undefined";
  if (!Number.isFinite(value)) return `${value < 0 ? "< −" : "> "}10³⁰⁸`; // beyond the largest float
  const size = Math.abs(value);
  if (size && (size >= LARGEST_PLAIN || size < SMALLEST_PLAIN)) return `${value < 0 ? "−" : ""}${scientific(Math.log10(size))}`;
  return String(Number(value.toPrecision(3))).replace("-", "−");
}

export function eigenvalueText([re, im]) {
  return Math.abs(im) < 1e-12 ? brief(re) : `${brief(re)} ± ${brief(Math.abs(im))}i`;
}

export const percent = (share) => `${share >= 0.0995 ? (100 * share).toFixed(0) : (100 * share).toFixed(1)}%`;
