// The pieces of a control as a bar under the time axis, each in the colour of the token that moves in it.

const bar = () => document.getElementById("pieces");

export function showPieces(stage, steering, end) {
  // One field for each piece; none for a run without a control.
  const pieces = steering?.pieces ?? [], hasNoHeads = !stage.model.isLayered && stage.model.eigenvalues?.length === 0;
  bar().hidden = !pieces.length;
  for (const panel of ["attention", "spectrum"]) document.getElementById(panel).closest("article").hidden = hasNoHeads;
  bar().setAttribute("aria-label", `Pieces of the control: ${pieces.length}`);
  bar().replaceChildren(...pieces.map(([start, stop, token]) => {
    const field = document.createElement("span");
    Object.assign(field.style, { left: `${(100 * start) / end}%`, width: `${(100 * (stop - start)) / end}%`, background: stage.css(token + 1, 7) });
    field.title = `token ${token + 1}: t = ${start.toFixed(2)} to ${stop.toFixed(2)}`;
    return field;
  }));
}
