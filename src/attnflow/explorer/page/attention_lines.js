// Attention between words: a line from every word to the words that it attends to, the wider, the larger the weight.

const MAX_WORDS = 80; // more lines cannot be told apart
const LEAST_WEIGHT = 0.04, TIMES_EQUAL = 1.5; // smaller weights are left out: absolute, and over equal weights 1/n
const FAINT = 0.25; // share of its strength that a line keeps while one word is pointed at

export function drawAttentionLines(pen, stage) {
  const { attention, frame, model, seen, hovered } = stage, n = frame.n;
  if (!model.labels || !attention || attention.run !== frame.run || attention.side !== n || n > MAX_WORDS) return;
  const least = Math.max(LEAST_WEIGHT, TIMES_EQUAL / n), strength = hovered === null ? 1 : FAINT;
  pen.strokeStyle = stage.theme.accent;
  pen.lineCap = "round";
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < n; j++) {
      const weight = attention.weights[i * n + j];
      if (i === j || i === hovered || weight < least) continue; // the pointed word has its own lines
      pen.globalAlpha = strength * Math.min(0.1 + 0.7 * weight, 0.8);
      pen.lineWidth = 0.5 + 4 * weight;
      pen.beginPath();
      pen.moveTo(seen[3 * i], seen[3 * i + 1]);
      pen.lineTo(seen[3 * j], seen[3 * j + 1]);
      pen.stroke();
    }
  }
  pen.globalAlpha = 1;
  pen.lineCap = "butt";
}
