// Clusters: tokens within a distance of each other, directly or by a chain, and colours that stay from frame to frame.

const SMALLEST_SHARE = 50; // a coloured cluster holds two tokens and at least one in so many
const NARROW = 0.01, WIDE = 0.1; // least and largest distance of tokens in one cluster, over the size of the first tokens

export function squaredDistance(tokens, d, i, j) {
  let total = 0;
  for (let c = 0; c < d; c++) { const apart = tokens[i * d + c] - tokens[j * d + c]; total += apart * apart; }
  return total;
}

export function labelsOf(tokens, d, distance) {
  // The cluster of every token: 0, 1, ... in the order of their first members; null if some token is not finite.
  const n = tokens.length / d, labels = new Int32Array(n).fill(-1), limit = distance * distance;
  if (!tokens.every(Number.isFinite)) return null;
  let count = 0;
  const waiting = new Int32Array(n);
  for (let first = 0; first < n; first++) {
    if (labels[first] >= 0) continue;
    let filled = 1;
    [waiting[0], labels[first]] = [first, count];
    while (filled > 0) {
      const i = waiting[--filled];
      for (let j = first + 1; j < n; j++) if (labels[j] < 0 && squaredDistance(tokens, d, i, j) <= limit) { labels[j] = count; waiting[filled++] = j; }
    }
    count += 1;
  }
  return { labels, count };
}

export function clusterDistance(first, d, size) {
  // Half the distance within which a quarter of the first tokens have a neighbour, within bounds.
  const n = first.length / d;
  if (n < 2 || !first.every(Number.isFinite)) return NARROW * size;
  const nearest = new Float64Array(n).fill(Infinity);
  for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) if (i !== j) nearest[i] = Math.min(nearest[i], squaredDistance(first, d, i, j));
  const sorted = nearest.map(Math.sqrt).sort(), place = 0.25 * (n - 1), below = Math.floor(place);
  const quantile = sorted[below] + (place - below) * ((sorted[below + 1] ?? sorted[below]) - sorted[below]);
  return Math.min(Math.max(quantile / 2, NARROW * size), WIDE * size);
}

export class ClusterColours {
  // A cluster keeps the colour that most of its coloured tokens had; 0 is the colour of tokens in no cluster.
  #previous = null;

  constructor(distance) { this.distance = distance; }

  startFrom(colours) { this.#previous = colours; }

  update(tokens, d) {
    const found = labelsOf(tokens, d, this.distance), n = tokens.length / d, colours = new Uint16Array(n);
    if (!found) return { colours, count: 0 };
    const sizes = new Int32Array(found.count), used = new Set(), smallest = Math.max(2, Math.floor(n / SMALLEST_SHARE));
    for (const label of found.labels) sizes[label] += 1;
    const order = [...sizes.keys()].sort((a, b) => sizes[b] - sizes[a]);
    for (const label of order) {
      if (sizes[label] < smallest) break;
      const members = [...found.labels.keys()].filter((i) => found.labels[i] === label);
      const colour = colourOf(members.map((i) => this.#previous?.[i] ?? 0), used);
      for (const i of members) colours[i] = colour;
      used.add(colour);
    }
    this.#previous = colours;
    return { colours, count: found.count };
  }
}

function colourOf(previous, used) {
  // The most frequent unused colour of the members, or the first unused one.
  const counts = new Map();
  for (const colour of previous) counts.set(colour, (counts.get(colour) ?? 0) + 1);
  const found = [...counts.keys()].filter((colour) => colour && !used.has(colour)).sort((a, b) => counts.get(b) - counts.get(a) || a - b);
  if (found.length) return found[0];
  let colour = 1;
  while (used.has(colour)) colour += 1;
  return colour;
}
