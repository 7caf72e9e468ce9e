// The controls: one field for every setting, with the words that the server accepts.

import { TEXTS, valueOf } from "./link.js";
import { WordField } from "./words.js";

const GROUPS = [
  { legend: "Prompt", isOpen: true, names: [["prompt", "Prompt"], ["second", "Second prompt, compared with it"], ["layer", "Layer"], ["head", "Head"]] },
  { legend: "Attention", isOpen: true,
    names: [["beta", "β, inverse temperature"], ["attention", "Attention"], ["mask", "Mask"]] },
  { legend: "Tokens", isOpen: true,
    names: [["n", "Tokens n"], ["d", "Dimension d"], ["space", "Space"], ["start", "First tokens"], ["seed", "Seed"],
      ["heads", "Heads"]] },
  { legend: "Weights", isOpen: true,
    names: [["value", "V: a spectrum or a matrix"], ["query_key", "QᵀK"], ["redraw", "Redraw weights every"]] },
  { legend: "Layer",
    names: [["normalisation", "Normalisation"], ["mlp", "MLP"], ["kappa", "Noise κ (empty: no noise)"]] },
  { legend: "Time", names: [["end", "End"], ["spacing", "Time scale"], ["solver", "Solver"], ["rtol", "Tolerance"]] },
];
const PAIRED = new Set(["n", "d", "seed", "heads", "end", "spacing", "layer", "head"]);
const NUMBERS = { // least, step
  n: [1, 1], d: [1, 1], seed: [0, 1], heads: [1, 1],
  redraw: [0, "any"], kappa: [0, "any"], end: [0, "any"], rtol: [0, "any"],
};
const MLPS = ["none", "relu", "tanh", "gelu", "identity"];
const CHOICES = new Set(["space", "spacing", "mlp", "layer", "head"]);
const UNTRAINED = new Set(["Tokens", "Weights", "Layer"]); // settings that a trained model and a prompt determine
const OPTIONAL = new Set(["redraw", "mlp", "kappa", "solver", "head"]);
const READ = { solver: { none: "default" } };
const MAX_BETA = 200; // of the slider
export const sliderOf = (beta) => 100 * Math.cbrt(Math.min(Math.max(beta, 0), MAX_BETA) / MAX_BETA);
export const betaOf = (slider) => Number((MAX_BETA * (slider / 100) ** 3).toPrecision(3));

export class Controls {
  constructor(form, words, onChange, absent = []) {
    // `words` are the known words of settings, `absent` are names of settings without a field.
    Object.assign(this, { onChange, absent });
    this.fields = new Map();
    this.words = new Map();
    this.groups = new Map();
    const known = { ...words, mlp: MLPS, spacing: ["linear", "log"], solver: ["none", ...words.solver] };
    form.replaceChildren(...GROUPS.map((group) => this.#group(group, known)));
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  #group({ legend, names, isOpen }, known) {
    const set = Object.assign(document.createElement("details"), { open: isOpen ?? innerHeight > 1000 });
    set.append(Object.assign(document.createElement("summary"), { className: "legend", textContent: legend }));
    this.groups.set(legend, set);
    let pair = null;
    for (const [name, text] of names.filter(([one]) => !this.absent.includes(one))) {
      const field = this.#field(name, text, known[name]);
      if (!PAIRED.has(name)) { set.append(field); pair = null; continue; }
      if (!pair) { pair = Object.assign(document.createElement("div"), { className: "pair" }); set.append(pair); }
      pair.append(field);
      if (pair.children.length === 2) pair = null;
    }
    return set;
  }

  #field(name, text, known) {
    if (name === "beta") return this.#beta(text);
    if (name in NUMBERS || CHOICES.has(name) || TEXTS.has(name)) return this.#simple(name, text, known);
    const field = new WordField(name, text, known, (word) => this.#send(name, word));
    for (const option of field.select.options) option.textContent = READ[name]?.[option.value] ?? option.textContent;
    this.words.set(name, field);
    return field.root;
  }

  #simple(name, text, known) {
    const kind = CHOICES.has(name) ? "select" : TEXTS.has(name) ? "textarea" : "input";
    const label = document.createElement("label"), input = document.createElement(kind);
    input.name = name;
    if (CHOICES.has(name)) input.append(...(known ?? []).map((word) => new Option(word, word)));
    else if (TEXTS.has(name)) Object.assign(input, { rows: name === "prompt" ? 3 : 2, maxLength: 400 });
    else {
      [input.type, input.step] = ["number", NUMBERS[name][1]];
      input.min = NUMBERS[name][0];
    }
    input.addEventListener("change", () => this.#send(name, input.value));
    if (TEXTS.has(name)) input.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); input.blur(); } });
    label.append(text, input);
    this.fields.set(name, input);
    return label;
  }

  #beta(text) {
    const label = document.createElement("label");
    const row = Object.assign(document.createElement("span"), { className: "slider" });
    const facts = { type: "range", min: 0, max: 100, step: 0.5, id: "beta" };
    const slider = Object.assign(document.createElement("input"), facts);
    const exact = Object.assign(document.createElement("input"), { type: "number", step: "any", name: "beta" });
    slider.setAttribute("aria-label", "beta");
    exact.setAttribute("aria-label", "beta, exactly");
    slider.addEventListener("input", () => {
      exact.value = betaOf(slider.value);
      slider.setAttribute("aria-valuetext", exact.value);
      this.#send("beta", exact.value);
    });
    exact.addEventListener("change", () => { slider.value = sliderOf(exact.value); this.#send("beta", exact.value); });
    row.append(slider, exact);
    label.append(text, row);
    this.slider = slider;
    this.fields.set("beta", exact);
    return label;
  }

  #send(name, text) {
    const value = valueOf(name, String(text).trim()), changed = { ...this.settings, [name]: value };
    const start = name !== "start" && !fits(changed.start, changed) ? { start: "sphere" } : {}; // tokens must lie on the sphere
    if (value !== null || OPTIONAL.has(name)) this.onChange({ [name]: value, ...start });
    else if (this.fields.has(name)) this.fields.get(name).value = this.settings[name]; // a required setting
    else this.words.get(name).show(this.settings[name], this.settings[name] !== this.standard[name]);
  }

  show(settings, standard, isSteered = false) {
    // Show the settings of the run, except in a field that is being edited.
    [this.settings, this.standard] = [settings, standard];
    offer(this.fields.get("layer"), settings.layers, []);
    offer(this.fields.get("head"), settings.heads, [new Option("mean", "none")]);
    for (const [name, input] of this.fields) {
      const value = settings[name];
      if (document.activeElement !== input) input.value = value ?? (CHOICES.has(name) ? "none" : "");
      input.classList.toggle("changed", value !== standard[name]);
    }
    for (const [name, field] of this.words) {
      if (!field.isBusy) field.show(settings[name], settings[name] !== standard[name]);
    }
    if (document.activeElement !== this.slider) this.slider.value = sliderOf(settings.beta);
    const isTrained = "prompt" in settings, isLayered = isTrained && !("layer" in settings);
    for (const [legend, group] of this.groups) {
      group.hidden = legend === "Prompt" ? !isTrained : isLayered || (isTrained && UNTRAINED.has(legend));
    }
    this.fields.get("layer").closest("label").hidden = isLayered;
    this.#disable(settings);
    for (const name of ["space", "heads", "spacing", "rtol"]) this.fields.get(name)?.closest("label").toggleAttribute("hidden", isSteered);
    for (const name of ["start", "solver"]) this.words.get(name)?.root.toggleAttribute("hidden", isSteered);
    if (isSteered) for (const legend of ["Attention", "Weights", "Layer"]) if (this.groups.has(legend)) this.groups.get(legend).hidden = true;
  }

  #disable(settings) {
    // Disable settings that have no effect.
    this.slider.disabled = this.fields.get("beta").disabled = settings.attention.startsWith("hardmax");
    const hasFixedSteps = settings.solver !== null && !["tsit5", "dopri8", "kvaerno5"].includes(settings.solver);
    this.fields.get("rtol").disabled = hasFixedSteps;
    this.fields.get("n").disabled = settings.start.startsWith("angles");
    if (this.fields.has("redraw")) this.fields.get("redraw").disabled = settings.space === "rescaled"; // rescaling by e^{tV} needs a constant V
    this.words.get("normalisation").select.disabled = settings.space !== "sphere";
    for (const option of this.words.get("start").select.options) option.disabled = !fits(option.value, settings);
  }
}

function offer(select, count = 0, before) {
  // Numbers of layers or heads, from 0, after other choices.
  const options = [...before, ...Array.from({ length: count }, (_, k) => new Option(k, k))];
  if (select.options.length !== options.length) select.replaceChildren(...options);
}

function fits(start, { space, normalisation }) {
  // On the sphere tokens have length one, unless the normalisation gives them lengths.
  const hasLengths = ["pre", "mix", "peri"].some((name) => normalisation?.startsWith(name));
  return space !== "sphere" || hasLengths || !["box", "ball", "gaussian"].some((name) => start.startsWith(name));
}
