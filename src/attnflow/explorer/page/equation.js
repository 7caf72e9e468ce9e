// The equation of the model as MathML. Every part is marked with the setting that changes it, so that a control can light it.

const row = (...parts) => `<mrow>${parts.join("")}</mrow>`;
const i = (name) => `<mi>${name}</mi>`;
const o = (sign) => `<mo>${sign}</mo>`;
const n = (number) => `<mn>${Number(number)}</mn>`;
const sub = (base, index) => `<msub>${base}${index}</msub>`;
const sup = (base, power) => `<msup>${base}${power}</msup>`;
const ratio = (top, bottom) => `<mfrac>${top}${bottom}</mfrac>`;
const root = (...parts) => `<msqrt>${parts.join("")}</msqrt>`;
const dot = (name, index) => sub(`<mover>${i(name)}${o("˙")}</mover>`, index);
const brackets = (...parts) => row(o("("), ...parts, o(")"));
const scalar = (left, right) => row(o("⟨"), left, o(","), right, o("⟩"));
const lit = (settings, ...parts) => `<mrow data-setting="${settings}">${parts.join("")}</mrow>`;
const word = (text) => `<mtext>${text.replace(/^ | $/g, "\u00a0")}</mtext>`; // plain spaces at its ends are not drawn
const SPACE = '<mspace width="0.2em"/>';
const J = i("j"), I = i("i"), K = i("k"), H = i("h");

const numbersOf = (text) => (text?.split(":")[1] ?? "").split(",").filter(Boolean);
const nameOf = (text) => text?.split(":")[0];

export function equation(settings) {
  // The lines of the equation: the velocity, the weights, and what the normalisation adds; empty for a trained model's layers.
  if (!("attention" in settings) || ("prompt" in settings && !("layer" in settings))) return [];
  return [velocity(settings), ...noise(settings), ...[weights(settings)].flat(), ...normalisation(settings)].map((line) => `<math display="block">${line}</math>`);
}

function velocity(settings) {
  const { space, kappa, mlp, solver } = settings, z = space === "rescaled" ? "z" : "x";
  const token = sub(i(z), I), isLayers = nameOf(solver) === "layers";
  const output = mlp ? lit("mlp", i("σ"), brackets(attentionOutput(settings))) : attentionOutput(settings);
  const field = space === "sphere" ? row(slowness(settings), lit("space", sub(i("P"), token)), brackets(output)) : output;
  if (isLayers) return row(token, o("←"), lit("solver", space === "sphere" ? i("N") : ""), brackets(token, o("+"), lit("solver", i("h")), field));
  return kappa ? row(i("d"), token, o("="), field, SPACE, i("d"), i("t")) : row(dot(z, I), o("="), field);
}

function noise({ space, kappa }) {
  // A line of its own, below the drift.
  const projection = space === "sphere" ? sub(i("P"), sub(i("x"), I)) : "";
  return kappa ? [lit("kappa", o("+"), root(ratio(n(2), i("κ"))), projection, SPACE, i("d"), sub(i("W"), I))] : [];
}

function attentionOutput({ space, heads, mask, redraw }) {
  const isRescaled = space === "rescaled", several = heads > 1;
  const V = lit("value redraw", sub1(i("V"), several), redraw ? brackets(i("t")) : "");
  const weight = several ? `<msubsup>${i("A")}${row(I, J)}${H}</msubsup>` : sub(i("A"), row(I, J));
  const moved = isRescaled ? brackets(sub(i("z"), J), o("−"), sub(i("z"), I)) : sub(i("x"), J);
  return row(several ? lit("heads", `<munder>${o("∑")}${H}</munder>`) : "", sumOver(mask, J), lit("attention", weight), V, moved);
}

const sub1 = (base, several) => (several ? sub(base, H) : base);

const sumOver = (mask, index) => lit("mask n", `<munder>${o("∑")}${visible(mask, index)}</munder>`);

function visible(mask, index) {
  // The tokens that token i attends to: the index alone, or what the masks ask of it.
  const conditions = mask.split("+").map((one) => CONDITIONS[nameOf(one)]?.(index, numbersOf(one))).filter(Boolean);
  return conditions.length ? row(conditions.join(o(","))) : index;
}

const CONDITIONS = {
  causal: (index) => row(index, o("≤"), I),
  "strictly-causal": (index) => row(index, o("&lt;"), I),
  others: (index) => row(index, o("≠"), I),
  window: (index, [width]) => row(o("|"), I, o("−"), index, o("|"), o("≤"), n(width ?? 1)),
};

function score({ space, query_key, prompt }, left, right) {
  // beta <Q x_i, K x_j>; in the rescaled frame of x = e^{tV} z.
  const name = space === "rescaled" ? "z" : "x", frame = space === "rescaled" ? lit("value", sup(i("e"), row(i("t"), i("V")))) : "";
  const isIdentity = query_key === "identity" && prompt === undefined; // a trained model has its own Q and K
  const of = (matrix, index) => row(isIdentity ? "" : lit("query_key", i(matrix)), frame, sub(i(name), index));
  return lit("query_key", scalar(of("Q", left), of("K", right)));
}

function weights(settings) {
  const { attention, mask } = settings, rule = nameOf(attention), beta = lit("beta", i("β"));
  const A = sub(i("A"), row(I, J)), slope = mask.split("+").find((one) => nameOf(one) === "alibi");
  const alibi = (index) => (slope ? lit("mask", o("−"), n(numbersOf(slope)[0] ?? 1), o("|"), I, o("−"), index, o("|")) : "");
  const exponential = (index, offset = "") => sup(i("e"), row(beta, offset ? brackets(score(settings, I, index), offset) : score(settings, I, index), alibi(index)));
  if (rule === "hardmax") {
    const largest = row(lit("mask n", `<munder>${word("argmax")}${visible(mask, K)}</munder>`), score(settings, I, K));
    return [lit("attention", A, o("="), ratio(n(1), word("number of maxima"))), row(lit("attention", word("if ")), J, o("∈"), largest)];
  }
  if (rule === "unnormalised") {
    const [given] = numbersOf(attention), offset = given && Number(given) !== 0 ? row(o("−"), n(given)) : "";
    return row(A, o("="), lit("attention", ratio(n(1), i("n"))), exponential(J, offset));
  }
  const rows = ratio(exponential(J), row(sumOver(mask, K), exponential(K)));
  const softmax = row(A, o("="), lit("attention", rows));
  if (rule !== "sinkhorn") return softmax;
  const more = ["then columns and rows in turn,", `${Number(numbersOf(attention)[0] ?? 5)} divisions in all`];
  return [softmax, ...more.map((line) => lit("attention", word(line)))];
}

function slowness({ normalisation: scheme }) {
  const name = nameOf(scheme);
  return name === "post" ? "" : lit("normalisation", ratio(n(1), sub(i("s"), I)));
}

function normalisation({ space, normalisation: scheme }) {
  // The slowness s_i of arXiv:2510.22026, for the attention output A_i in the brackets.
  const r = sub(i("r"), I), A = row(o("|"), sub(i("A"), I), o("|")), [number] = numbersOf(scheme), name = nameOf(scheme);
  const schemes = {
    pre: row(r), peri: row(r, A), sqrt: root(i("t"), o("+"), n(1)), ngpt: ratio(A, number ? n(number) : n(0.2)),
    mix: row(n(1), word(` until t = ${Number(number ?? 1)}, then `), r),
  };
  if (space !== "sphere" || !(name in schemes)) return [];
  const lengths = ["pre", "peri", "mix"].includes(name)
    ? row(dot("r", I), o("="), ratio(row(r, scalar(sub(i("x"), I), sub(i("A"), I))), sub(i("s"), I))) : "";
  const slowness = [sub(i("s"), I), o("="), schemes[name]];
  if (name === "mix") return [lit("normalisation", ...slowness), lit("normalisation", word("and then "), lengths)];
  return [lit("normalisation", ...slowness, ...(lengths ? [word(","), SPACE, SPACE, lengths] : []))];
}

const SIZE = 15, LEAST_SIZE = 11; // pixels of the letters of an equation

const controlled = () => {
  // x_i' = P_{x_i}( W(t) h(U(t) x_i + b(t)) ), the perceptron of a control.
  const x = sub(i("x"), I), at = (name) => row(i(name), brackets(i("t")));
  return `<math display="block">${row(dot("x", I), o("="), sub(i("P"), x), brackets(at("W"), i("h"), brackets(at("U"), x, o("+"), at("b"))))}</math>`;
};

export function showEquation(place, settings, steering) {
  const lines = steering ? controlled() : equation(settings).join("");
  const panel = place.closest("article");
  panel.hidden = !lines;
  if (place.dataset.lines === lines) return;
  [place.innerHTML, place.dataset.lines] = [lines, lines];
  place.style.removeProperty("--size");
  const share = panel.clientWidth / panel.scrollWidth; // a long equation is set smaller
  if (share < 1) place.style.setProperty("--size", `${Math.max(Math.floor(SIZE * share), LEAST_SIZE)}px`);
}

export function lightWith(form, place) {
  // The parts of the equation that a control changes are lit while it is pointed at or edited.
  const light = (event, isLit) => {
    const name = event.target.closest?.("label, .word")?.querySelector("[name]")?.name.replace("-numbers", "");
    for (const part of place.querySelectorAll("[data-setting]")) {
      part.classList.toggle("lit", isLit && Boolean(name) && part.dataset.setting.split(" ").includes(name));
    }
  };
  for (const [on, off] of [["pointerover", "pointerout"], ["focusin", "focusout"]]) {
    form.addEventListener(on, (event) => light(event, true));
    form.addEventListener(off, (event) => light(event, false));
  }
}
