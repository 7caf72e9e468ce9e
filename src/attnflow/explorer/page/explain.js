// The texts below the stage: description of the scenario, prediction, and whether the run agrees with it.

import { typeset } from "./mathematics.js";

const $ = (id) => document.getElementById(id);
const ANSWERS = {
  agrees: ["✓", "The run agrees"], "not-yet": ["…", "Not decided yet"],
  differs: ["✗", "The run differs"], none: ["–", "Nothing to compare"],
};

export function showDescription({ words, paper }, title) {
  const text = document.createElement("p"), source = document.createElement("p");
  text.append(typeset(words.join(" ")));
  source.className = "source";
  if (paper) source.append(...(title ? [`${title}, `] : []), linkTo(paper));
  const isOld = $("words").textContent === text.textContent + source.textContent;
  if (!isOld) $("words").replaceChildren(text, source); // screen readers read every replacement
}

export function showPrediction({ words, says, rate, proved, paper, suggestion, isUnchecked }) {
  const [limit, badge, facts] = ["b", "span", "span"].map((kind) => document.createElement(kind));
  limit.append(typeset(words ? capital(words) : ""));
  badge.className = "badge";
  badge.textContent = proved ? "proved" : paper ? "not proved" : "open";
  badge.hidden = Boolean(isUnchecked); // no theorem was looked up, so that nothing is known to be open
  facts.className = "source";
  facts.append(typeset(rate ? `Rate: ${rate}. ` : ""), paper ? `${paper}.` : "");
  const parts = [limit, " ", badge, " ", typeset(says ?? ""), typeset(suggestion ? ` ${suggestion}` : ""), " ", facts];
  $("prediction").replaceChildren(...(words ? parts : []));
}

export function showVerdict({ answer, summary, evidence }) {
  const [sign, words] = ANSWERS[answer] ?? ["", ""];
  const numbers = Object.assign(document.createElement("span"), { className: "source" });
  numbers.append(typeset(evidence ? ` ${capital(evidence)}.` : ""));
  $("verdict").dataset.answer = answer ?? "none";
  $("verdict").replaceChildren(...(answer ? [typeset(`${sign} ${words}.${summary ? ` ${summary}.` : ""}`), numbers] : []));
}

export function showPrompts({ parts, settings }, counts) {
  // Of two prompts: their marks, first words and numbers of clusters.
  const prompts = [settings.prompt, settings.second], marks = ["●", "■"];
  $("prompts").hidden = !(parts?.length > 1);
  if ($("prompts").hidden) return;
  const counted = (k) => (counts ? `${counts[k]} cluster${counts[k] === 1 ? "" : "s"}` : `${parts[k]} tokens`);
  const line = (k) => {
    const row = document.createElement("li"), name = document.createElement("span");
    name.textContent = prompts[k] ?? `Prompt ${k + 1}`;
    row.append(`${marks[k]} ${counted(k)}: `, name);
    return row;
  };
  $("prompts").replaceChildren(line(0), line(1));
}

export function spokenText(model, frame, clusters, time) {
  // The text that a screen reader reads for the stage.
  const { d } = model.settings, surface = d === 2 ? "circle" : "sphere";
  const where = model.isSphere ? `on the ${surface}` : `in ${d} dimension${d > 1 ? "s" : ""}`;
  const counted = clusters === null ? "" : `, in ${clusters} cluster${clusters === 1 ? "" : "s"}`;
  return `${frame.n} tokens ${where}, ${time}${counted}.`;
}

function linkTo(paper) {
  const address = { href: `https://arxiv.org/abs/${paper}`, rel: "noreferrer", target: "_blank" };
  return Object.assign(document.createElement("a"), address, { textContent: `arXiv:${paper}` });
}

const capital = (text) => text[0].toUpperCase() + text.slice(1);
