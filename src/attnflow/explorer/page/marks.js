// Marks of the tokens: dots, trails, clusters, centres, words, and the attention of the chosen token.

const TURN = 2 * Math.PI, FADES = 4, MAX_SEGMENTS = 5000, LEVELS = 8; // parts of a trail, its lines, shades of a colour
const MAX_COUNTED = 30, MAX_NAMED = 120, MAX_WORDS = 4; // clusters, tokens, and words of a cluster with a text
const TEXT_HEIGHT = 12; // pixels above the baseline
const TRAIL_DEPTH = 0.45; // share of a circle's radius that trails take inside it

export function drawTrails(pen, stage) {
  // Earlier positions, fading. On a circle they are drawn inside, so that merging tokens can be followed.
  const { history, frame } = stage, length = history.length;
  if (length < 2 || frame.n > MAX_SEGMENTS) return;
  const stride = Math.ceil((frame.n * (length - 1)) / MAX_SEGMENTS), isCircle = stage.model.isSphere && frame.d === 2;
  const part = Math.max(stride, stride * Math.ceil((length - 1) / FADES / stride));
  pen.lineWidth = 1.1;
  const strength = Math.min(1, 8 / Math.sqrt(frame.n)) * (stage.theme.isDark ? 1.7 : 1); // fainter for many tokens
  for (const [cluster, members] of stage.byCluster()) {
    pen.strokeStyle = stage.css(cluster, LEVELS - 1);
    for (let last = length - 1; last > 0; last -= part) {
      pen.globalAlpha = strength * (0.06 + 0.34 * (last / (length - 1)) ** 2);
      pen.beginPath();
      for (const i of members) pathOf(pen, stage, i, last, Math.max(last - part, 0), stride, isCircle);
      pen.stroke();
    }
  }
  pen.globalAlpha = 1;
}

function pathOf(pen, stage, i, from, to, stride, isCircle) {
  const { history, at } = stage, newest = history.length - 1;
  for (let k = from; ; k = Math.max(k - stride, to)) {
    const p = history.frames[k], inward = isCircle ? 1 - (TRAIL_DEPTH * (newest - k)) / history.most : 1;
    stage.project(inward * p[3 * i], inward * p[3 * i + 1], p[3 * i + 2]);
    if (k === from) pen.moveTo(at[0], at[1]); else pen.lineTo(at[0], at[1]);
    if (k === to) return;
  }
}

export function drawDots(pen, stage) {
  const { seen, camera, radius, frame } = stage, isDeep = !camera.isFlat, hasRim = frame.n <= 400;
  pen.strokeStyle = stage.theme.paper;
  pen.lineWidth = 1;
  for (const i of stage.fromBackToFront()) {
    const x = seen[3 * i], y = seen[3 * i + 1];
    if (!Number.isFinite(x + y)) continue;
    if (stage.isTarget(i)) { drawTarget(pen, stage, i, x, y); continue; }
    const near = isDeep ? Math.min(Math.max((seen[3 * i + 2] + 1) / 2, 0), 1) : 1;
    pen.fillStyle = stage.css(stage.clusterOf(i), Math.round(near * (LEVELS - 1)));
    pen.beginPath();
    const size = radius * (isDeep ? 0.6 + 0.45 * near : 1);
    if (stage.partOf(i)) square(pen, x, y, 0.9 * size); else pen.arc(x, y, size, 0, TURN);
    pen.fill();
    if (hasRim) pen.stroke();
  }
}

function drawTarget(pen, stage, i, x, y) {
  // A hollow dot, wider than a token, which is inside of it in the end.
  pen.strokeStyle = stage.css(stage.clusterOf(i), stage.seen[3 * i + 2] < 0 && !stage.camera.isFlat ? 2 : LEVELS - 1);
  pen.lineWidth = 2;
  pen.beginPath();
  pen.arc(x, y, stage.radius + 3.5, 0, TURN);
  pen.stroke();
  pen.strokeStyle = stage.theme.paper;
  pen.lineWidth = 1;
}

function square(pen, x, y, half) {
  // Tokens of a second prompt.
  pen.moveTo(x - half, y - half);
  for (const [right, down] of [[1, -1], [1, 1], [-1, 1], [-1, -1]]) pen.lineTo(x + right * half, y + down * half);
}

export function shade(colour, paper, level) {
  // Far dots take the colour of the paper; they stay opaque.
  const share = 0.3 + (0.7 * level) / (LEVELS - 1);
  return `rgb(${colour.map((part, k) => Math.round(paper[k] + share * (part - paper[k]))).join(",")})`;
}

export function drawClusters(pen, stage, taken) {
  // A disc whose area grows with the cluster, and its number of tokens, since merged dots look like one.
  const least = smallestMarked(stage);
  const counted = [...stage.byCluster()].filter(([cluster, members]) => cluster && members.length >= least);
  const groups = counted.map(([cluster, members]) => centreOf(stage, cluster, members));
  for (const one of stage.frame.d > 1 ? groups : []) {
    pen.fillStyle = stage.css(one.cluster, LEVELS - 1);
    pen.globalAlpha = one.z < 0 && !stage.camera.isFlat ? 0.1 : 0.2;
    pen.beginPath();
    pen.arc(one.x, one.y, one.size, 0, TURN);
    pen.fill();
  }
  pen.globalAlpha = 1;
  if (groups.length > MAX_COUNTED) return;
  pen.font = "600 12px system-ui, sans-serif";
  for (const one of groups.sort((a, b) => b.n - a.n)) drawCount(pen, stage, one, taken);
}

const smallestMarked = (stage) => (stage.frame.n <= 40 ? 2 : 3);

function centreOf(stage, cluster, members) {
  let [x, y, z] = [0, 0, 0];
  for (const i of members) { x += stage.seen[3 * i]; y += stage.seen[3 * i + 1]; z += stage.seen[3 * i + 2]; }
  const n = members.length, most = 0.06 * Math.min(stage.width, stage.height);
  const size = Math.min(stage.radius * Math.sqrt(1.5 + 0.7 * n), most);
  return { cluster, n, x: x / n, y: y / n, z: z / n, size, text: textOf(stage.model.labels ?? [], members) };
}

function textOf(names, members) {
  // The number of tokens, or their words.
  if (!names.length) return String(members.length);
  const times = new Map();
  for (const i of members) times.set(names[i], (times.get(names[i]) ?? 0) + 1);
  const more = times.size - MAX_WORDS, written = [...times].slice(0, MAX_WORDS);
  return written.map(([word, count]) => (count > 1 ? `${word} ×${count}` : word)).join("  ") + (more > 0 ? `  +${more}` : "");
}

function drawCount(pen, stage, { text, x, y, z, size }, taken) {
  // For tokens on the line, the text stands above the column of dots.
  if (stage.frame.d === 1) [y, size] = [stage.originY, 0.75 * stage.scale + stage.radius];
  const [a, b] = [x - stage.originX, y - stage.originY], from = Math.hypot(a, b);
  const [u, v] = from < 1 || stage.frame.d === 1 ? [0, -1] : [a / from, b / from];
  const away = size + 11, aside = 3.4 * (text.length - 1) * u; // a long text begins where the disc ends
  pen.fillStyle = z < -0.1 && !stage.camera.isFlat ? stage.theme.grey : stage.theme.ink;
  drawText(pen, stage, text, x + away * u + aside, y + away * v + 4, taken, [x, y]);
}

function drawText(pen, stage, text, x, y, taken, of = [x, y]) {
  // Text with an outline, unless another text is in its place. If what it names, at `of`, is on the stage, so is the text.
  const half = 3.6 * text.length + 2;
  if (of[0] >= 0 && of[0] <= stage.width && of[1] >= 0 && of[1] <= stage.height) {
    x = Math.min(Math.max(x, half), stage.width - half);
    y = Math.min(Math.max(y, TEXT_HEIGHT), stage.height - 4);
  }
  if (taken.some(([a, b, other]) => Math.abs(a - x) < half + other && Math.abs(b - y) < 13)) return false;
  taken.push([x, y, half]);
  pen.textAlign = "center";
  pen.strokeStyle = stage.theme.paper;
  pen.lineWidth = 3;
  pen.lineJoin = "round";
  pen.strokeText(text, x, y);
  pen.fillText(text, x, y);
  return true;
}

export function drawLabels(pen, stage, taken) {
  // Words of tokens in no cluster, nearest first, above or below the dot if there is room.
  const names = stage.model.labels ?? [];
  if (!names.length || stage.frame.n > MAX_NAMED) return;
  pen.font = "12px system-ui, sans-serif";
  for (const i of [...stage.fromBackToFront()].reverse()) {
    const cluster = stage.clusterOf(i);
    if (cluster && stage.byCluster().get(cluster).length >= smallestMarked(stage)) continue;
    pen.fillStyle = stage.seen[3 * i + 2] < -0.1 && !stage.camera.isFlat ? stage.theme.grey : stage.theme.ink;
    const [x, y] = stage.seenAt(i), away = stage.radius + 5;
    if (names[i]) drawText(pen, stage, names[i], x, y - away, taken) || drawText(pen, stage, names[i], x, y + away + 9, taken);
  }
}

export function drawCentres(pen, stage) {
  pen.strokeStyle = stage.theme.ink;
  pen.lineWidth = 1.4;
  for (const i of stage.model.centres ?? []) if (i < stage.frame.n) circle(pen, stage, i, stage.radius + 4);
}

export function drawAttended(pen, stage) {
  // The row of P as lines: the wider, the larger the weight.
  const token = stage.hovered;
  if (token === null || token >= stage.frame.n) return;
  const weights = stage.row?.token === token ? stage.row.weights : [];
  const most = Math.max(...weights.map(([, weight]) => weight), 1e-9);
  pen.strokeStyle = stage.theme.weight;
  for (const [j, weight] of weights) {
    if (j >= stage.frame.n || j === token) continue;
    pen.globalAlpha = 0.15 + (0.75 * weight) / most;
    pen.lineWidth = 0.6 + (2.6 * weight) / most;
    pen.beginPath();
    pen.moveTo(stage.seen[3 * token], stage.seen[3 * token + 1]);
    pen.lineTo(stage.seen[3 * j], stage.seen[3 * j + 1]);
    pen.stroke();
  }
  pen.globalAlpha = 1;
  pen.lineWidth = 2;
  pen.strokeStyle = stage.theme.ink;
  circle(pen, stage, token, stage.radius + 2.5);
  if (stage.partner !== null && stage.partner < stage.frame.n) circle(pen, stage, stage.partner, stage.radius + 2.5);
}

function circle(pen, stage, i, radius) {
  pen.beginPath();
  pen.arc(stage.seen[3 * i], stage.seen[3 * i + 1], radius, 0, TURN);
  pen.stroke();
}
