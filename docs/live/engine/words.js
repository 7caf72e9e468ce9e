// Words of settings, such as "diagonal:2,1": names with numbers, checked by the library's vocabulary.

export class Refused extends Error {}

let vocabulary = null; // {setting: {word: {defaults, isWhole, count, size, entries}}}, written by the library
let install = "", bounds = {};

export function setVocabulary(data) { [vocabulary, install, bounds] = [data.vocabulary, data.install, data.limits]; }

export const installSentence = () => install; // how to get what this page does not offer
export const limits = () => bounds; // largest counts, and the shortest step at jumps of the field

export function refuseUnknown(name, known, setting) {
  if (known.includes(name)) return;
  throw new Refused(`\`${setting}\` '${name}' is not known on this page. It knows ${known.join(", ")}. ${install}`);
}

export function parsed(text, setting, d) {
  // The name of a word, its numbers with defaults for those left out, and its entry in the vocabulary.
  const [name, tail] = split(String(text)), which = `\`${setting}\` '${name}'`;
  refuseUnknown(name, Object.keys(vocabulary[setting]), setting);
  const word = vocabulary[setting][name], given = tail ? tail.split(",").map((part) => (part.trim() === "" ? NaN : Number(part))) : [];
  if (!given.every(Number.isFinite)) throw new Refused(`The numbers in \`${setting}\` must be finite, but it is '${text}'.`);
  if (word.size !== null && word.size !== d) throw new Refused(`${which} is a matrix of size ${word.size}, but d is ${d}. Leave d as it is, or choose another \`${setting}\`.`);
  if (word.count) {
    const needed = { d, "d^2": d * d, any: Math.max(given.length, 1) }[word.count];
    if (given.length !== needed) throw new Refused(`${which} needs ${needed} number${needed === 1 ? "" : "s"} after the colon, but it has ${given.length}.`);
    return { name, numbers: given, word };
  }
  if (given.length > word.defaults.length) throw new Refused(`${which} takes at most ${word.defaults.length} numbers after the colon, but it has ${given.length}.`);
  if (word.isWhole && !given.every(Number.isInteger)) throw new Refused(`${which} takes a whole number after the colon, but it is ${given[0]}.`);
  return { name, numbers: [...given, ...word.defaults.slice(given.length)], word };
}

export function split(text) {
  const at = text.indexOf(":");
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}

export function general(value) {
  // A number as Python's format "g" writes it: six significant digits without zeros at the end.
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  return digits(value, 6);
}

export function digits(value, count) {
  // The same with `count` significant digits.
  if (value === 0) return Object.is(value, -0) ? "-0" : "0";
  const exponent = Number(value.toExponential(count - 1).split("e")[1]);
  if (exponent >= -4 && exponent < count) return withoutZeros(value.toFixed(Math.max(count - 1 - exponent, 0)));
  const [mantissa, power] = value.toExponential(count - 1).split("e");
  return `${withoutZeros(mantissa)}e${power[0]}${power.slice(1).padStart(2, "0")}`;
}

const withoutZeros = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
