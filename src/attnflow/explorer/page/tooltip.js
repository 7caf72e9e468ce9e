// The note beside the token under the pointer: its index, its cluster, and the tokens that it attends to.

import { percent } from "./numbers.js";

const MAX_NAMED = 4, OFFSET = 14; // tokens named; pixels from the pointer

export function showTooltip(note, stage) {
  const token = stage.hovered;
  note.hidden = token === null || !stage.frame || token >= stage.frame.n;
  if (note.hidden) return;
  const text = words(stage, token);
  if (note.textContent !== text) note.textContent = text;
  const fits = (at, size, room) => Math.min(Math.max(at + OFFSET, 4), Math.max(room - size - 6, 4));
  const [x, y] = stage.seenAt(token);
  const left = fits(x, note.offsetWidth, stage.width), top = fits(y, note.offsetHeight, stage.height);
  note.style.transform = `translate(${left}px, ${top}px)`;
}

function words(stage, token) {
  if (stage.model.steering) { // tokens and their targets
    const { targets } = stage.model.steering;
    return token < targets ? `token ${token + 1}` : `target of token ${token - targets + 1}`;
  }
  const { frame, model, row } = stage, cluster = frame.labels?.[token] ?? 0, name = (j) => (model.labels ? `“${model.labels[j]}”` : j + 1);
  const size = cluster ? frame.labels.reduce((sum, one) => sum + (one === cluster), 0) : 1;
  const isCentre = model.centres?.includes(token) ? ", a Rényi centre" : "";
  const word = model.labels ? `“${model.labels[token]}”, ` : "";
  const membership = cluster ? `in a cluster of ${size}` : "in no cluster";
  const lines = [`${word}token ${token + 1}${isCentre}, ${membership}`];
  const most = row?.token === token ? row.weights.slice(0, MAX_NAMED) : [];
  if (most.length) lines.push(`attends to ${most.map(([j, weight]) => `${name(j)} (${percent(weight)})`).join(", ")}`);
  return lines.join("\n");
}
