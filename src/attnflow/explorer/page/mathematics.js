// Sentences of the server with their formulas set as mathematics: beta as β, x_1 with an index, e^{-t} with an exponent.

const GREEK = {
  alpha: "α", beta: "β", gamma: "γ", delta: "δ", epsilon: "ε", theta: "θ", kappa: "κ", lambda: "λ", mu: "μ", xi: "ξ",
  phi: "φ", pi: "π", rho: "ρ", sigma: "σ", tau: "τ", omega: "ω",
};
const SIGNS = { "<=": "≤", ">=": "≥", "+-": "±", "->": "→" };
const NAME = `(?:${Object.keys(GREEK).join("|")}|[A-Za-z]|\\d+)`;
const INDEX = String.raw`[_^](?:\{[^{}]*\}|\((?:[^()]|\([^()]*\))*\)|-?\w+(?:\.\d+)?|\*)`;
// A command in backticks; a name with indices or exponents; an exponent of brackets; a root; a Greek letter; a sign; the minus of a number, of I or of a Greek letter; a letter that stands alone (not the words "a" and "I").
const FORMULA = new RegExp(
  "`(?<code>[^`]+)`|" + String.raw`(?<![\w\\])(?<name>${NAME})(?<scripts>(?:${INDEX})+)|(?<=\))(?<power>\^(?:\{[^{}]*\}|-?\w+))|(?<![\w])sqrt\((?<root>[^()]*)\)|` +
  String.raw`(?<!\w|\w-)(?<greek>${Object.keys(GREEK).join("|")})(?![\w-])|(?<sign><=|>=|\+-|->)|(?<minus>(?<=[\s=(,[]|^)-(?=\d|(?:I|${Object.keys(GREEK).join("|")})(?![\w-])))(?<one>I?)|` +
  String.raw`(?<![\w\p{L}'’-])(?<letter>[B-HJ-Zb-hj-z]|I(?<=(?:=|\b[a-z]) I))(?![\w\p{L}'’-])`, "gu");

export function typeset(text) {
  // A fragment with the text, its formulas as elements.
  const parts = document.createDocumentFragment();
  let end = 0;
  for (const match of text.matchAll(FORMULA)) {
    parts.append(text.slice(end, match.index), ...formula(match.groups));
    end = match.index + match[0].length;
  }
  parts.append(text.slice(end));
  return parts;
}

function formula({ code, name, scripts, power, root, greek, sign, minus, one, letter }) {
  if (minus) return ["−", ...(one ? [variable(one)] : [])];
  if (code) return [element("code", code)];
  if (sign) return [SIGNS[sign]];
  if (power) return [element("sup", inner(power.slice(1)))];
  if (root !== undefined) return ["√", grouped(root)];
  if (!name) return [variable(greek ?? letter)];
  return [variable(name), ...[...scripts.matchAll(new RegExp(INDEX, "g"))].map(([script]) => element(script[0] === "_" ? "sub" : "sup", inner(script.slice(1))))];
}

function inner(script) {
  const text = /^[{(]/.test(script) ? script.slice(1, -1) : script;
  return text === "T" ? "⊤" : typeset(text.replaceAll("-", "−").replaceAll("*", "∗"));
}

function grouped(text) {
  const root = element("span", typeset(text));
  root.className = "root";
  return root;
}

const variable = (name) => (/^\d+$/.test(name) ? name : element("var", GREEK[name] ?? name));

function element(kind, content) {
  const one = document.createElement(kind);
  one.append(content);
  return one;
}
