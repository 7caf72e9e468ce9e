// What is known of a run before it is computed: fields of the message `started`, with the sentences of the library.

import { eigenvalues, isMultipleOfIdentity } from "./matrices.js";
import { heightName, leadingDirection, renyiCentres } from "./measure.js";
import { digits, general, installSentence } from "./words.js";

const FLOWS = { sphere: "SphereAttention", euclidean: "EuclideanAttention", rescaled: "RescaledAttention" };
const ATTENTIONS = { softmax: "Softmax", unnormalised: "Unnormalised", hardmax: "Hardmax" };
const NORMALISATIONS = { ngpt: "NGPT", sqrt: "Sqrt" };
const NUMERICAL = ["seed", "saves", "rtol", "atol", "runs"]; // settings of the start or the accuracy, not of the model

export function modelFields(scenario, run) {
  // Facts of the present model of a run.
  const { model, settings } = run, { end, spacing, saves } = settings; // which act at once, and are part of the first sentence
  return {
    words: sentences(scenario, { ...run.firstSettings, end, spacing, saves }, run.later, Boolean(run.placed)),
    settings, later: run.later, labels: null, parts: null, centres: renyiCentres(model, run.first), closeness: run.distance, isLayered: false,
    model: modelName(model), value: model.heads.map(({ value }) => valueWords(value)).join("; "),
    eigenvalues: model.heads.map(({ value }) => eigenvalues(value)), leading: leadingDirection(model),
    height: heightName(model), isEstimated: false, isSphere: model.isSphere, prediction: predictionOf(scenario, run),
  };
}

function modelName({ space, attention, masks, normalisation, heads }) {
  const parts = [FLOWS[space], ATTENTIONS[attention.name] + (attention.beta === null ? "" : ` beta = ${general(attention.beta)}`)];
  if (masks.length > 1 || masks[0].name !== "full") parts.push(`${masks.map(maskWords).join(" and ")} mask`);
  if (space === "sphere" && normalisation.name !== "post") parts.push(NORMALISATIONS[normalisation.name]);
  return [...parts, `${heads.length} head${heads.length > 1 ? "s" : ""}`].join(", ");
}

function maskWords({ name, numbers }) {
  return { full: "full", causal: "causal", window: `window ${numbers[0]}` }[name];
}

function valueWords(value) {
  // I, -I, or the four eigenvalues of largest real part.
  for (const [sign, word] of [[1, "I"], [-1, "-I"]]) if (isMultipleOfIdentity(value, sign)) return word;
  const found = eigenvalues(value).sort(([a], [b]) => b - a), shown = found.slice(0, 4).map(complexWords);
  return `eigenvalues ${shown.join(", ")}${found.length > 4 ? ` and ${found.length - 4} more` : ""}`;
}

function complexWords([real, imaginary]) {
  if (imaginary === 0) return digits(real, 4);
  return `${digits(real, 4)}${imaginary < 0 ? "" : "+"}${digits(imaginary, 4)}i`;
}

export function sentences(scenario, settings, later, isPlaced) {
  // The sentences of a scenario; of a run with other settings only the values that differ from its own.
  const differing = Object.entries(settings).filter(([name, value]) => !NUMERICAL.includes(name) && scenario.settings[name] !== value);
  const parts = [
    ...(isPlaced ? ["from tokens placed by hand"] : []),
    ...(differing.length ? [`with ${valuesInWords(differing)}`] : []),
    ...later.map(([time, values]) => `from t = ${digits(time, 4)} on with ${valuesInWords(Object.entries(values))}`),
  ];
  return parts.length ? [`The scenario ${scenario.name} ${parts.join(", ")}.`] : scenario.words;
}

const valuesInWords = (entries) => entries.map(([name, value]) => `${name} = ${value === null ? "none" : typeof value === "number" ? general(value) : value}`).join(", ");

function predictionOf(scenario, run) {
  // The library's prediction for the scenario or a step of its tour; other models need the installed library.
  const isKnown = ({ settings }) => Object.entries(settings).every(([name, value]) => name === "runs" || isWithoutEffect(name) || run.settings[name] === value);
  const found = !run.placed && scenario.predictions.find(isKnown);
  if (found) return found.prediction;
  return { limit: "unknown", limits: ["unknown"], words: "not looked up on this page", isUnchecked: true, says: `The installed explorer checks the theorems on changed settings. ${installSentence()}`, proved: false };
}

const isWithoutEffect = (name) => ["end", "saves", "spacing", "rtol", "atol"].includes(name);
