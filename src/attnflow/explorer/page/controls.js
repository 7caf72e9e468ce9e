// The controls: one field for every setting, made from the words that the server knows.

import { valueOf } from "./link.js";

const FIELDS = [
  { legend: "Tokens", names: [["n", "Tokens n"], ["d", "Dimension d"], ["space", "Space"], ["start", "First tokens"], ["seed", "Seed"], ["heads", "Heads"]] },
  { legend: "Attention", names: [["beta", "β, inverse temperature"], ["attention", "Attention"], ["mask", "Mask"]] },
  { legend: "Weights", names: [["value", "V, by spectrum or matrix:a,b,c,d"], ["query_key", "QᵀK, likewise"], ["redraw", "Redrawn every"]] },
  { legend: "Layer", names: [["normalisation", "Normalisation"], ["mlp", "MLP"], ["kappa", "Noise κ (none: no noise)"]] },
  { legend: "Time", names: [["end", "End"], ["spacing", "Time goes by"], ["solver", "Solver"], ["rtol", "Tolerance"]] },
];
const PAIRED = new Set(["n", "d", "seed", "heads", "end", "spacing", "solver", "rtol"]);
const NUMBERS = { n: [1, 1], d: [1, 1], seed: [0, 1], heads: [1, 1], beta: [null, "any"], redraw: [0, "any"], kappa: [0, "any"], end: [0, "any"], rtol: [0, "any"] };
const HIGHEST_BETA = 200;
const sliderOf = (beta) => 100 * Math.cbrt(Math.min(Math.max(beta, 0), HIGHEST_BETA) / HIGHEST_BETA);
const betaOf = (slider) => Number((HIGHEST_BETA * (slider / 100) ** 3).toPrecision(3));

export class Controls {
  constructor(form, words, onChange) {
    this.form = form;
    this.onChange = onChange;
    this.fields = new Map();
    const known = { ...words, mlp: ["none", "relu", "tanh", "gelu", "identity"], spacing: ["linear", "log"] };
    form.replaceChildren(...FIELDS.map((group) => this.#group(group, known)));
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  #group({ legend, names }, known) {
    const set = document.createElement("fieldset"), title = document.createElement("legend");
    title.textContent = legend;
    set.append(title);
    let pair = null;
    for (const [name, text] of names) {
      const field = name === "beta" ? this.#beta(text) : this.#field(name, text, known[name]);
      if (!PAIRED.has(name)) { set.append(field); pair = null; continue; }
      if (!pair) { pair = document.createElement("div"); pair.className = "pair"; set.append(pair); }
      pair.append(field);
      if (pair.children.length === 2) pair = null;
    }
    return set;
  }

  #field(name, text, known) {
    const label = document.createElement("label"), isChoice = name === "space" || name === "spacing";
    label.append(text);
    const input = document.createElement(isChoice ? "select" : "input");
    input.name = name;
    if (isChoice) input.append(...known.map((word) => new Option(word, word)));
    else if (name in NUMBERS) {
      [input.type, input.step] = ["number", NUMBERS[name][1]];
      if (NUMBERS[name][0] !== null) input.min = NUMBERS[name][0];
    } else {
      const list = document.createElement("datalist");
      list.id = `words-${name}`;
      list.append(...known.map((word) => new Option(word)));
      input.setAttribute("list", list.id);
      input.spellcheck = false;
      label.append(list);
    }
    input.addEventListener("change", () => this.#tell(name, input.value));
    label.append(input);
    this.fields.set(name, input);
    return label;
  }

  #beta(text) {
    const label = document.createElement("label"), row = document.createElement("span");
    label.append(text);
    row.className = "slider";
    const slider = Object.assign(document.createElement("input"), { type: "range", min: 0, max: 100, step: 0.5, id: "beta" });
    slider.setAttribute("aria-label", "beta");
    const exact = Object.assign(document.createElement("input"), { type: "number", step: "any", name: "beta" });
    exact.setAttribute("aria-label", "beta, exactly");
    slider.addEventListener("input", () => { exact.value = betaOf(slider.value); this.#tell("beta", exact.value); });
    exact.addEventListener("change", () => { slider.value = sliderOf(exact.value); this.#tell("beta", exact.value); });
    row.append(slider, exact);
    label.append(row);
    this.slider = slider;
    this.fields.set("beta", exact);
    return label;
  }

  #tell(name, text) {
    const value = valueOf(name, String(text).trim());
    if (value === null && !["redraw", "mlp", "kappa", "solver"].includes(name)) { this.show(this.settings, this.standard); return; }
    this.onChange({ [name]: value });
  }

  show(settings, standard) {
    // What the run has; a field that someone types in is left alone.
    [this.settings, this.standard] = [settings, standard];
    for (const [name, input] of this.fields) {
      if (document.activeElement === input && name !== "beta") continue;
      const value = settings[name];
      if (document.activeElement !== input) input.value = value === null || value === undefined ? (name in NUMBERS ? "" : "none") : value;
      input.classList.toggle("changed", value !== standard[name]);
    }
    if (document.activeElement !== this.slider) this.slider.value = sliderOf(settings.beta);
    const hasNoBeta = settings.attention.startsWith("hardmax");
    this.slider.disabled = this.fields.get("beta").disabled = hasNoBeta;
    this.fields.get("rtol").disabled = settings.solver !== null && !["tsit5", "dopri8", "kvaerno5"].includes(settings.solver);
    this.fields.get("n").disabled = settings.start.startsWith("angles");
  }
}
