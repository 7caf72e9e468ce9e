// The field of a setting that is a word with numbers, such as "diagonal:2,1": a list of words, and a field for numbers.

const TYPED = "typed"; // masks joined with a plus
const NUMBERS = {
  value: {
    diagonal: "entries, such as 2, 1, 0.5",
    eigenvalues: "d eigenvalues, such as 2, 0.5", "eigenvalues-random": "d eigenvalues, such as 2, 0.5",
    pair: "a, b of a ± bi", jordan: "the eigenvalue, such as 1", matrix: "row by row: 1, 0, 0, 1",
  },
  attention: { unnormalised: "offset of scores", hardmax: "tolerance of ties", sinkhorn: "iterations, such as 5" },
  mask: { window: "width, such as 8", alibi: "slope, such as 0.5" },
  start: {
    box: "from, to: -5, 5", ball: "radius", gaussian: "deviation", equiangular: "cosine",
    angles: "one per token: 0, 0.5, 2",
  },
  normalisation: { mix: "time of the switch", ngpt: "alpha, such as 0.2" },
  solver: { euler: "step", heun: "step", rk4: "step", layers: "step, such as 0.1", "stochastic-heun": "step",
    "straight-stochastic-heun": "step" },
};
NUMBERS.query_key = NUMBERS.value;
// Words that need numbers; the others have default numbers.
const NEEDED = new Set(["diagonal", "eigenvalues", "eigenvalues-random", "matrix", "angles"]);
const READ = {
  "published-2d": "2 × 2 of the paper", "published-codim2": "3 × 3 of the paper, two grow",
  "published-3d-decaying": "3 × 3 of the paper, pair decays", "published-3d-growing": "3 × 3 of the paper, pair grows",
  [TYPED]: "several, joined with +",
};

export class WordField {
  constructor(name, label, known, onChange) {
    Object.assign(this, { name, known, onChange });
    this.root = Object.assign(document.createElement("div"), { className: "word" });
    this.select = Object.assign(document.createElement("select"), { name });
    this.numbers = Object.assign(document.createElement("input"), { name: `${name}-numbers`, spellcheck: false });
    const offered = [...known, ...(name === "mask" ? [TYPED] : [])];
    this.select.append(...offered.map((word) => new Option(READ[word] ?? word, word)));
    this.numbers.setAttribute("aria-label", `${label}: numbers`);
    const field = document.createElement("label");
    field.append(label, this.select);
    this.root.append(field, this.numbers);
    this.select.addEventListener("change", () => this.#chosen());
    this.numbers.addEventListener("change", () => this.#typed());
  }

  get isBusy() { return document.activeElement === this.numbers || document.activeElement === this.select; }

  show(value, isChanged) {
    const word = value ?? "none", [first, tail] = split(word), isTyped = this.name === "mask" && word.includes("+");
    this.select.value = isTyped ? TYPED : first;
    this.numbers.value = isTyped ? word : tail.replaceAll(",", ", ");
    this.#showNumbers();
    for (const field of [this.select, this.numbers]) field.classList.toggle("changed", isChanged);
  }

  #showNumbers() {
    const word = this.select.value, hint = word === TYPED ? "such as causal+window:8" : NUMBERS[this.name]?.[word];
    this.numbers.hidden = !hint;
    this.numbers.placeholder = this.numbers.title = hint ?? "";
  }

  #chosen() {
    const word = this.select.value;
    this.numbers.value = "";
    this.#showNumbers();
    if (NEEDED.has(word) || word === TYPED) this.numbers.focus(); // the run continues unchanged until numbers are given
    else this.onChange(word);
  }

  #typed() {
    const text = this.numbers.value.trim(), numbers = text.replace(/[,;\s]+/g, ",");
    if (this.select.value === TYPED) this.onChange(text.replace(/\s+/g, ""));
    else this.onChange(numbers ? `${this.select.value}:${numbers}` : this.select.value);
  }
}

function split(word) {
  const at = word.indexOf(":");
  return at < 0 ? [word, ""] : [word.slice(0, at), word.slice(at + 1)];
}
