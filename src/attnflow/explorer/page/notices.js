// Short texts about the state of the page: in its header, and over the stage while something is computed.

const $ = (id) => document.getElementById(id);
let timer = null;

export function say(sentence) { $("status").textContent = sentence; }

export function showWaiting(sentence, share, delay) {
  // A sentence over the stage, shown if it lasts longer than `delay` milliseconds; an empty one hides it.
  clearTimeout(timer);
  $("waiting").textContent = sentence && share !== undefined ? `${sentence} (${Math.round(100 * share)}%)` : sentence;
  if (sentence) timer = setTimeout(() => { $("waiting").hidden = false; }, delay);
  else $("waiting").hidden = true;
}
