// Keyboard shortcuts of the page.

const TURNS = { ArrowLeft: [-0.12, 0], ArrowRight: [0.12, 0], ArrowUp: [0, -0.12], ArrowDown: [0, 0.12] }; // radians, with shift

export function listenForKeys(actions, turn) {
  addEventListener("keydown", (event) => {
    const action = event.shiftKey && event.key in TURNS ? () => turn(...TURNS[event.key]) : actions[event.key];
    if (isForField(event) || event.ctrlKey || event.metaKey || event.altKey || !action) return;
    if (event.key !== "Escape") event.preventDefault(); // escape also closes menus
    action();
  });
}

function isForField(event) {
  // Space presses buttons and links; other keys are for fields, except space on a slider.
  if (event.key === " " && event.target.closest("button, summary, a")) return true;
  const isOnSlider = event.key === " " && event.target.type === "range";
  return Boolean(event.target.closest("input, select, textarea")) && !isOnSlider;
}
