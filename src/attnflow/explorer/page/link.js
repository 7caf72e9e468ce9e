// The state of the page as the hash of its address, and back: a link restores exactly what was shown.

import { differenceOf } from "./compare.js";

const VIEW = ["trails", "hull", "centres", "colours", "lines"];

export function write(state) {
  const parts = new URLSearchParams({ scenario: state.scenario });
  for (const [name, value] of Object.entries(state.changes)) parts.set(name, value === null ? "none" : String(value));
  if (state.later.length) parts.set("later", JSON.stringify(state.later));
  if (state.tokens) parts.set("tokens", state.tokens.flat().join(","));
  if (state.time !== null) parts.set("t", String(state.time));
  if (state.speed) parts.set("speed", String(state.speed));
  if (state.camera) parts.set("camera", state.camera.map((x) => +x.toFixed(4)).join(","));
  if (state.axes) parts.set("axes", state.axes.join(","));
  if (state.principal) parts.set("principal", state.principal.flat().map((x) => +x.toFixed(4)).join(","));
  if (state.strip) parts.set("strip", "beta");
  if (state.tour) parts.set("tour", state.tour);
  if (state.ask) parts.set("ask", "1");
  if (state.compare) parts.set("compare", `${state.compare.name}:${state.compare.value}`);
  if (state.compare && state.half) parts.set("half", "second");
  const hidden = VIEW.filter((name) => !state.view[name]);
  if (hidden.length) parts.set("hide", hidden.join(","));
  return "#" + parts.toString().replaceAll("%3A", ":").replaceAll("%2C", ",");
}

export function read(hash, catalogue) {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const named = parts.get("scenario"), known = catalogue.find((one) => one.name === named);
  const scenario = known ?? catalogue.find((one) => one.name === "sphere") ?? catalogue[0];
  const changes = {};
  for (const [name, standard] of Object.entries(scenario.settings)) {
    if (parts.has(name)) changes[name] = valueOf(name, parts.get(name), standard);
  }
  const hidden = (parts.get("hide") ?? "").split(",");
  return {
    scenario: scenario.name,
    unknown: named && !known ? named : null, // a name of which there is no scenario
    changes,
    later: parsed(parts.get("later")) ?? [],
    tokens: tokensOf(parts.get("tokens"), changes.d ?? scenario.settings.d),
    time: parts.has("t") && Number.isFinite(Number(parts.get("t"))) ? Number(parts.get("t")) : null,
    speed: Number(parts.get("speed")) || 0,
    strip: parts.get("strip") === "beta",
    tour: parts.get("tour"),
    camera: cameraOf(parts.get("camera")),
    axes: axesOf(parts.get("axes"), changes.d ?? scenario.settings.d),
    principal: principalOf(parts.get("principal"), changes.d ?? scenario.settings.d),
    compare: scenario.coalesces ? null : differenceOf(parts.get("compare")),
    ask: parts.get("ask") === "1",
    half: parts.get("half") === "second" ? 1 : 0,
    view: Object.fromEntries(VIEW.map((name) => [name, !hidden.includes(name)])),
  };
}

export const NUMBERS = new Set(["n", "d", "heads", "seed", "layer", "head", "saves", "beta", "redraw", "kappa", "end", "rtol", "atol"]);

export const TEXTS = new Set(["prompt", "second"]); // settings that may be any text

export function valueOf(name, text) {
  if (TEXTS.has(name)) return text || (name === "second" ? "" : null); // there may be no second prompt
  if (text === "none" || text === "") return null;
  return NUMBERS.has(name) && Number.isFinite(Number(text)) ? Number(text) : text;
}

function tokensOf(text, d) {
  // Tokens placed by hand, rows of d numbers; null for another text.
  const numbers = (text ?? "").split(",").map(Number);
  if (!text || numbers.length % d || numbers.length > 300 || !numbers.every(Number.isFinite)) return null;
  return Array.from({ length: numbers.length / d }, (_, i) => numbers.slice(i * d, (i + 1) * d));
}

function cameraOf(text) {
  const numbers = (text ?? "").split(",").map(Number);
  return [10, 12].includes(numbers.length) && numbers.every(Number.isFinite) ? numbers : null;
}

function axesOf(text, d) {
  const numbers = (text ?? "").split(",").map(Number);
  return numbers.length === 3 && numbers.every((axis) => Number.isInteger(axis) && axis >= 0 && axis < d) ? numbers : null;
}

function principalOf(text, d) {
  const numbers = (text ?? "").split(",").map(Number);
  if (d <= 3 || numbers.length !== 3 * d || !numbers.every(Number.isFinite)) return null;
  return [0, 1, 2].map((k) => numbers.slice(k * d, (k + 1) * d));
}

function parsed(text) {
  try {
    const found = JSON.parse(text ?? "null");
    return Array.isArray(found) ? found : null;
  } catch {
    return null;
  }
}
