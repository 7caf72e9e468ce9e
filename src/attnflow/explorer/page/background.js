// The background of the tokens: a sphere with its graticule, a circle, or labelled axes.

const TURN = 2 * Math.PI, PARTS = 72;

export function drawBackground(pen, stage) {
  const d = stage.model.settings.d;
  if (stage.model.isSphere) {
    disc(pen, stage, d >= 3);
    if (d === 3) graticule(pen, stage);
    if (d > 3) axes(pen, stage, 3);
    if (d <= 3 && stage.model.leading) poles(pen, stage, stage.model.leading);
  } else if (d === 1) line(pen, stage);
  else axes(pen, stage, Math.min(d, 3));
}

function disc(pen, stage, isBall) {
  pen.beginPath();
  pen.arc(stage.originX, stage.originY, stage.scale, 0, TURN);
  if (isBall && !stage.isCloud) { pen.fillStyle = stage.theme.card; pen.fill(); } // a point cloud lies below this canvas
  pen.strokeStyle = stage.theme.rule;
  pen.lineWidth = isBall ? 1.2 : 1.4;
  pen.stroke();
}

function graticule(pen, stage) {
  // Parallels and meridians every 30 degrees, the equator stronger; the far half is fainter.
  pen.strokeStyle = stage.theme.rule;
  for (const isFar of [true, false]) {
    pen.lineWidth = 0.8;
    pen.globalAlpha = isFar ? 0.25 : 0.7;
    pen.beginPath();
    for (let k = 0; k < 6; k++) {
      const [u, v] = [Math.cos((k * Math.PI) / 6), Math.sin((k * Math.PI) / 6)];
      ring(pen, stage, isFar, (c, s) => [c * u, s, c * v]);
    }
    for (const k of [-2, -1, 1, 2]) parallel(pen, stage, isFar, (k * Math.PI) / 6);
    pen.stroke();
    pen.lineWidth = 1.5;
    pen.beginPath();
    parallel(pen, stage, isFar, 0);
    pen.stroke();
  }
  pen.globalAlpha = 1;
}

function parallel(pen, stage, isFar, latitude) {
  const [r, y] = [Math.cos(latitude), Math.sin(latitude)];
  ring(pen, stage, isFar, (c, s) => [r * c, y, r * s]);
}

function ring(pen, stage, isFar, point) {
  let isDown = false;
  for (let k = 0; k <= PARTS; k++) {
    const angle = (k / PARTS) * TURN, [x, y, z] = stage.toScreen(...point(Math.cos(angle), Math.sin(angle)));
    const draws = isFar ? z <= 0.02 : z >= -0.02;
    if (draws) pen[isDown ? "lineTo" : "moveTo"](x, y);
    isDown = draws;
  }
}

function poles(pen, stage, leading) {
  // The line of the leading eigenvector, which tokens are often drawn to.
  const tip = [...leading, 0, 0].slice(0, 3);
  const ends = [1, -1].map((side) => stage.toScreen(...tip.map((one) => side * one)));
  pen.strokeStyle = pen.fillStyle = stage.theme.bad;
  pen.lineWidth = 1.2;
  pen.globalAlpha = 0.7;
  segment(pen, ...ends);
  pen.globalAlpha = 1;
  pen.font = "14px system-ui, sans-serif";
  for (const [k, [x, y]] of ends.entries()) {
    const beyond = 1 + 28 / stage.scale; // beyond a token at the pole
    pen.textAlign = "center";
    const [u, v] = [stage.originX + beyond * (x - stage.originX), stage.originY + beyond * (y - stage.originY) + 5];
    const isNear = Math.abs(u - stage.width / 2) < stage.width / 2 + 10; // 10 pixels: half of the text
    pen.fillText(k ? "−ξ" : "ξ", isNear ? Math.min(Math.max(u, 10), stage.width - 10) : u, v);
  }
}

function axes(pen, stage, count) {
  for (let k = 0; k < count; k++) {
    const tip = [0, 0, 0], mark = [0, 0, 0], tick = niceBelow(stage.extents[k]);
    tip[k] = 1.08 * stage.extents[k];
    mark[k] = tick;
    const to = stage.toScreen(...tip), from = stage.toScreen(...tip.map((one) => -one));
    pen.strokeStyle = stage.theme.rule;
    pen.lineWidth = 1;
    segment(pen, from, to);
    pen.fillStyle = stage.theme.grey;
    pen.font = "12px system-ui, sans-serif";
    const length = Math.hypot(to[0] - from[0], to[1] - from[1]);
    if (length < 90) continue; // seen from its end: no room for texts
    label(pen, stage, stage.axisName(k), to, 12);
    if (!stage.model.isSphere) ticks(pen, stage, mark, tick, [(to[0] - from[0]) / length, (to[1] - from[1]) / length]);
  }
}

function ticks(pen, stage, mark, tick, [u, v]) {
  for (const side of [-1, 1]) {
    const [x, y] = stage.toScreen(...mark.map((one) => side * one));
    segment(pen, [x - 4 * v, y + 4 * u], [x + 4 * v, y - 4 * u]);
    if (side < 0) continue;
    pen.textAlign = "center";
    pen.fillText(String(tick), x + 15 * Math.abs(v), y + 16 * Math.abs(u) + 4 * Math.abs(v));
  }
}

function label(pen, stage, text, [x, y], away) {
  const [a, b] = [x - stage.originX, y - stage.originY], size = Math.hypot(a, b) || 1;
  pen.textAlign = a > 0.3 * size ? "left" : a < -0.3 * size ? "right" : "center";
  const isBeside = Math.abs(a) > 0.3 * size;
  pen.fillText(text, x + (isBeside ? Math.sign(a) * 5 : 0), y + (isBeside ? 4 : (b / size) * away + 4));
}

function line(pen, stage) {
  // Tokens on the line are drawn above each other, the first on top, over an axis with zero marked.
  const reach = stage.extents[0], low = 0.86 * stage.extents[1], tick = niceBelow(reach);
  pen.strokeStyle = stage.theme.rule;
  pen.fillStyle = stage.theme.grey;
  pen.font = "12px system-ui, sans-serif";
  pen.textAlign = "center";
  segment(pen, stage.toScreen(-1.05 * reach, -low, 0), stage.toScreen(1.05 * reach, -low, 0));
  segment(pen, stage.toScreen(0, -low, 0), stage.toScreen(0, 0.8 * stage.extents[1], 0));
  for (const at of [-tick, 0, tick]) {
    const [x, y] = stage.toScreen(at, -low, 0);
    segment(pen, [x, y - 4], [x, y + 4]);
    pen.fillText(String(at).replace("-", "−"), x, y + 18);
  }
}

function segment(pen, from, to) {
  pen.beginPath();
  pen.moveTo(from[0], from[1]);
  pen.lineTo(to[0], to[1]);
  pen.stroke();
}

export function niceBelow(size) {
  // The largest of 1, 2, 5 times a power of ten that is not above `size`.
  const power = 10 ** Math.floor(Math.log10(size || 1));
  const digit = [5, 2, 1].find((one) => one * power <= size) ?? 1;
  return Number((digit * power).toPrecision(1));
}
