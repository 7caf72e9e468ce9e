// Pointer events of the stage: dragging turns or moves it, wheel and pinch zoom, pointing chooses a token.

export function listen(stage) {
  const { root } = stage, fingers = new Map();
  root.addEventListener("pointerdown", (event) => {
    if (event.target.closest("button, a")) return;
    root.setPointerCapture(event.pointerId);
    if (stage.hands?.grab(event)) return;
    fingers.set(event.pointerId, [event.clientX, event.clientY]);
    if (event.pointerType === "touch") choose(stage, event);
  });
  root.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId), now = [event.clientX, event.clientY];
    if (stage.hands?.isHolding) return stage.hands.drag(event);
    if (!before) return choose(stage, event);
    const apart = gap(fingers);
    fingers.set(event.pointerId, now);
    if (fingers.size === 2) stage.zoomBy(gap(fingers) / apart);
    else stage.drag(now[0] - before[0], now[1] - before[1]);
    return null;
  });
  const release = (event) => { fingers.delete(event.pointerId); stage.hands?.drop(); };
  for (const name of ["pointerup", "pointercancel"]) root.addEventListener(name, release);
  root.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") stage.point(stage.hands?.chosen ?? null); });
  root.addEventListener("wheel", (event) => {
    event.preventDefault();
    const { left, top } = root.getBoundingClientRect();
    stage.zoomBy(Math.exp(-event.deltaY / 600), event.clientX - left, event.clientY - top);
  }, { passive: false });
}

function choose(stage, event) {
  const box = stage.root.getBoundingClientRect();
  stage.point(stage.nearest(event.clientX - box.left, event.clientY - box.top));
}

function gap(fingers) {
  const [a, b] = [...fingers.values()];
  return b ? Math.hypot(a[0] - b[0], a[1] - b[1]) || 1 : 1;
}
