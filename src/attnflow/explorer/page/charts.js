// The drawings in the panels: curves over time, a histogram, eigenvalues in the plane, a matrix as an image.

import { eigenvalueText, percent } from "./numbers.js";

const PADDING = { left: 40, right: 34, top: 8, bottom: 18 }, FONT = "11px system-ui, sans-serif";

export function prepare(canvas, theme) {
  const ratio = Math.min(window.devicePixelRatio || 1, 2), [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  Object.assign(pen, { font: FONT, fillStyle: theme.grey, strokeStyle: theme.rule, lineWidth: 1, globalAlpha: 1 });
  const box = { x: PADDING.left, y: PADDING.top };
  box.w = width - PADDING.left - PADDING.right;
  box.h = height - PADDING.top - PADDING.bottom;
  return { pen, width, height, box };
}

export function shareAt(canvas, event) {
  // The position of a pointer between the left and right ends of a chart's axis.
  const { left, width } = canvas.getBoundingClientRect();
  return Math.min(Math.max((event.clientX - left - PADDING.left) / (width - PADDING.left - PADDING.right), 0), 1);
}

export function drawSeries(canvas, theme, { curves, cursor, ends }) {
  // Curves {points: [[x, y], ...], colour, top, side} in shares of the box, each with its own scale; x of the cursor.
  const { pen, box } = prepare(canvas, theme);
  drawFrame(pen, box);
  for (const { top, colour, side } of curves) {
    pen.fillStyle = colour;
    pen.textAlign = side === "left" ? "right" : "left";
    const x = side === "left" ? box.x - 5 : box.x + box.w + 5;
    pen.fillText(top, x, box.y + 6);
    pen.fillText("0", x, box.y + box.h + 1);
  }
  pen.fillStyle = theme.grey;
  labelAxis(pen, box, [[ends[0], 0], [ends[1], 1]]);
  for (const { points, colour } of curves) {
    pen.strokeStyle = colour;
    pen.lineWidth = 1.7;
    pen.lineJoin = "round";
    pen.beginPath();
    for (const [k, [x, y]] of points.entries()) {
      pen[k ? "lineTo" : "moveTo"](box.x + box.w * x, box.y + box.h * (1 - y));
    }
    pen.stroke();
  }
  if (cursor) drawCursor(pen, box, theme, cursor, curves);
}

function drawCursor(pen, box, theme, { x, ys }, curves) {
  const at = box.x + box.w * x;
  pen.strokeStyle = theme.ink;
  pen.lineWidth = 1;
  pen.globalAlpha = 0.6;
  pen.beginPath();
  pen.moveTo(at, box.y);
  pen.lineTo(at, box.y + box.h);
  pen.stroke();
  pen.globalAlpha = 1;
  for (const [k, y] of ys.entries()) {
    pen.fillStyle = curves[k].colour;
    pen.beginPath();
    pen.arc(at, box.y + box.h * (1 - y), 3, 0, 2 * Math.PI);
    pen.fill();
  }
}

export function drawHistogram(canvas, theme, shares, pointed) {
  const { pen, box } = prepare(canvas, theme), most = Math.max(...shares, 1e-9), width = box.w / (shares.length || 1);
  drawFrame(pen, box);
  labelAxis(pen, box, [["−1", 0], ["0", 0.5], ["1", 1]]);
  pen.textAlign = "right";
  if (shares.length) pen.fillText(percent(most), box.x - 5, box.y + 6);
  for (const [k, share] of shares.entries()) {
    pen.fillStyle = k === pointed ? theme.ink : theme.accent;
    const height = (box.h * share) / most;
    pen.fillRect(box.x + k * width + 0.5, box.y + box.h - height, Math.max(width - 1, 1), height);
  }
}

export function spectrumScale(width, height, all) {
  // Where the complex plane is drawn: pixels of its origin and of its unit.
  const box = { x: 8, y: 8, w: width - 16, h: height - 16 };
  const [across, up] = [0, 1].map((k) => 1.4 * Math.max(...all.map((one) => Math.abs(one[k])), 1e-9));
  return { box, across: Math.max(across, up), unit: Math.min(box.w / 2 / across, box.h / 2 / up), x: width / 2, y: height / 2 };
}

export function drawSpectrum(canvas, theme, all, instead, scale = null) {
  // Eigenvalues with the axes; the growing half, right of the imaginary axis, is tinted.
  const { pen, width, height } = prepare(canvas, theme);
  pen.textAlign = "left";
  if (!all.length) { pen.fillText(instead, 8, 20); return; }
  const reach = Math.max(...all.flat().map(Math.abs), 1e-9), { box, unit, x, y } = scale ?? spectrumScale(width, height, all);
  pen.fillStyle = theme.card;
  pen.fillRect(x, box.y, box.w / 2, box.h);
  pen.fillStyle = theme.grey;
  pen.beginPath();
  pen.moveTo(box.x, y); pen.lineTo(box.x + box.w, y);
  pen.moveTo(x, box.y); pen.lineTo(x, box.y + box.h);
  pen.stroke();
  pen.textAlign = "right"; pen.fillText("Re λ", box.x + box.w - 2, y - 5);
  pen.textAlign = "left"; pen.fillText("Im λ", x + 5, box.y + 9);
  const isMany = all.length > 30, groups = isMany ? all.map((one) => [one, 1]) : distinct(all, 1e-6 * reach);
  for (const [[re, im]] of groups) {
    pen.fillStyle = re > 1e-9 * reach ? theme.accent : theme.grey;
    pen.globalAlpha = isMany ? 0.6 : 1;
    pen.beginPath();
    pen.arc(x + unit * re, y - unit * im, isMany ? 2 : 4, 0, 2 * Math.PI);
    pen.fill();
  }
  pen.globalAlpha = 1;
  Object.assign(pen, { fillStyle: theme.ink, strokeStyle: theme.card, lineWidth: 3, lineJoin: "round" });
  const named = isMany ? [groups.reduce((best, one) => (one[0][0] > best[0][0] ? one : best))] : groups.slice(0, 6);
  const taken = [];
  for (const [k, [value, times]] of named.filter(([[, im]]) => im >= 0).entries()) {
    const away = k % 2 ? -9 : 17; // alternately above and below
    drawEigenvalue(pen, box, value, times, x + unit * value[0], y - unit * value[1] + away, taken);
  }
}

function drawEigenvalue(pen, box, value, times, x, y, taken) {
  const text = eigenvalueText(value) + (times > 1 ? ` (${times}×)` : ""), half = pen.measureText(text).width / 2;
  pen.textAlign = "center";
  const inside = (at, low, high) => Math.min(Math.max(at, low), high);
  const place = [inside(x, box.x + half, box.x + box.w - half), inside(y, box.y + 10, box.y + box.h - 2)];
  if (taken.some(([a, b, other]) => Math.abs(a - place[0]) < half + other && Math.abs(b - place[1]) < 11)) return;
  taken.push([...place, half]);
  pen.strokeText(text, ...place);
  pen.fillText(text, ...place);
}

function distinct(all, tolerance) {
  // Distinct eigenvalues with their multiplicities, largest real part first.
  const out = [];
  for (const one of [...all].sort((a, b) => b[0] - a[0])) {
    const same = out.find(([[re, im]]) => Math.hypot(re - one[0], im - one[1]) <= tolerance);
    if (same) same[1] += 1; else out.push([one, 1]);
  }
  return out;
}

export function drawMatrix(canvas, theme, { side, weights }, token) {
  const { pen, width, height } = prepare(canvas, theme), size = Math.min(width, height), cell = size / side;
  pen.imageSmoothingEnabled = false;
  pen.drawImage(imageOf(theme, side, weights), 0, 0, size, size);
  if (token === null) return;
  pen.strokeStyle = theme.bad;
  pen.lineWidth = 1.5;
  pen.strokeRect(0.75, token * cell - 0.75, size - 1.5, Math.max(cell, 2) + 1.5);
}

function imageOf(theme, side, weights) {
  const image = new ImageData(side, side), [from, to] = [theme.cardNumbers, theme.weightNumbers];
  let most = Math.min(6 / side, 1); // so that equal weights are pale
  for (const weight of weights) most = Math.max(most, weight);
  for (let i = 0; i < side * side; i++) {
    const share = Math.sqrt(Math.max(weights[i], 0) / most); // the square root makes small weights visible
    for (let k = 0; k < 3; k++) image.data[4 * i + k] = from[k] + share * (to[k] - from[k]);
    image.data[4 * i + 3] = 255;
  }
  const sheet = new OffscreenCanvas(side, side);
  sheet.getContext("2d").putImageData(image, 0, 0);
  return sheet;
}

function drawFrame(pen, box) {
  pen.beginPath();
  pen.moveTo(box.x, box.y);
  pen.lineTo(box.x, box.y + box.h);
  pen.lineTo(box.x + box.w, box.y + box.h);
  pen.stroke();
}

function labelAxis(pen, box, labels) {
  for (const [text, share] of labels) {
    pen.textAlign = share === 0 ? "left" : share === 1 ? "right" : "center";
    pen.fillText(text, box.x + share * box.w, box.y + box.h + 14);
  }
}
