// The words below the stage: what am I looking at, what theory says of it, and whether the run agrees.

const $ = (id) => document.getElementById(id);
const ANSWERS = {
  agrees: ["✓", "The run agrees"], "not-yet": ["…", "Not decided yet"], differs: ["✗", "The run differs"], none: ["–", "Nothing to compare"],
};

export function showWords({ words, paper, title }, isChanged) {
  const text = document.createElement("p"), source = document.createElement("p");
  text.textContent = words.join(" ") + (isChanged ? " With settings of your own, it may look otherwise." : "");
  source.className = "source";
  if (paper) source.append(...(title ? [`${title}, `] : []), linkTo(paper));
  if ($("words").textContent !== text.textContent + source.textContent) $("words").replaceChildren(text, source); // it is read aloud
}

export function showTheory({ words, says, rate, proved, paper, suggestion }) {
  const limit = document.createElement("b"), badge = document.createElement("span"), facts = document.createElement("span");
  limit.textContent = words ? capital(words) : "";
  badge.className = "badge";
  badge.textContent = proved ? "proved" : paper ? "not proved" : "open";
  facts.className = "source";
  facts.textContent = [rate ? `Rate: ${rate}.` : "", paper ? `${paper}.` : ""].filter(Boolean).join(" ");
  $("prediction").replaceChildren(...(words ? [limit, " ", badge, " ", says ?? "", suggestion ? ` ${suggestion}` : "", " ", facts] : []));
}

export function showVerdict({ answer, says }) {
  const [sign, words] = ANSWERS[answer] ?? ["", ""];
  const [, shown, numbers] = (says ?? "").match(/^(.*?)(?: \(([^()]*(?:\([^()]*\)[^()]*)*)\))?\.?$/s) ?? [null, says, ""];
  const facts = Object.assign(document.createElement("span"), { className: "source", textContent: numbers ? ` (${numbers})` : "" });
  const isPlain = answer === "not-yet" && shown.includes("undecided"); // which the first words say already
  $("verdict").dataset.answer = answer ?? "none";
  $("verdict").replaceChildren(...(answer ? [`${sign} ${words}.${isPlain ? "" : ` ${shown}.`}`, facts] : []));
}

export function stageWords(model, frame, clusters, time) {
  // What a screen reader says of the stage.
  const where = model.isSphere ? `on the ${model.settings.d === 2 ? "circle" : "sphere"}` : `in ${model.settings.d} dimension${model.settings.d > 1 ? "s" : ""}`;
  const counted = clusters === null ? "" : `, in ${clusters} cluster${clusters === 1 ? "" : "s"}`;
  return `${frame.n} tokens ${where} at time ${time}${counted}.`;
}

function linkTo(paper) {
  return Object.assign(document.createElement("a"), { href: `https://arxiv.org/abs/${paper}`, textContent: `arXiv:${paper}`, rel: "noreferrer", target: "_blank" });
}

const capital = (text) => text[0].toUpperCase() + text.slice(1);
