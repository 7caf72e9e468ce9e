// The note beside the token that is pointed at: its index, its cluster, whom it attends to.

import { percent } from "./numbers.js";

const MOST_NAMED = 4, AWAY = 14;

export function showTooltip(note, stage) {
  const token = stage.hovered;
  note.hidden = token === null || !stage.frame || token >= stage.frame.n;
  if (note.hidden) return;
  const text = words(stage, token);
  if (note.textContent !== text) note.textContent = text;
  const fits = (at, size, room) => Math.min(Math.max(at + AWAY, 4), Math.max(room - size - 6, 4));
  const [x, y] = stage.seenAt(token);
  const left = fits(x, note.offsetWidth, stage.width), top = fits(y, note.offsetHeight, stage.height);
  note.style.transform = `translate(${left}px, ${top}px)`;
}

function words(stage, token) {
  const { frame, model, row } = stage, slot = frame.labels?.[token] ?? 0, name = (j) => model.labels?.[j] ?? j + 1;
  const mates = slot ? frame.labels.reduce((sum, one) => sum + (one === slot), 0) : 1;
  const isCentre = model.centres?.includes(token) ? ", a Rényi centre" : "";
  const word = model.labels ? `“${model.labels[token]}”, ` : "";
  const crowd = slot ? `in a cluster of ${mates}` : "in no cluster";
  const lines = [`${word}token ${token + 1}${isCentre}, ${crowd}`];
  const most = row?.token === token ? row.weights.slice(0, MOST_NAMED) : [];
  if (most.length) lines.push(`attends to ${most.map(([j, weight]) => `${name(j)} (${percent(weight)})`).join(", ")}`);
  return lines.join("\n");
}
