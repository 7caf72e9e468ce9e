"""`widget`: a run in a notebook, played by the page of the explorer."""

from functools import cache
from typing import Any

from attnflow._common.checks import require_count
from attnflow._common.extras import require_extra
from attnflow._common.renamed import renamed_argument
from attnflow.explorer.export.html import page_of

# The page has a frame of its own, so that it shares no style with the notebook or with other widgets.
SCRIPT = """
function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.title = "Tokens of a run of attnflow";
  frame.setAttribute("sandbox", "allow-scripts allow-downloads allow-popups");
  frame.style.cssText = `display: block; width: 100%; height: ${model.get("height")}px; border: 0`;
  frame.srcdoc = model.get("page");
  el.append(frame);
  const resize = () => { frame.style.height = `${model.get("height")}px`; };
  model.on("change:height", resize);
  return () => model.off("change:height", resize);
}
export default { render };
"""


@renamed_argument("runs", "member")
def widget(
    run: Any,
    *,
    title: str | None = None,
    words: str = "",
    member: int = 0,
    frames: int = 300,
    height: int = 640,
) -> Any:
    """A run as a widget for Jupyter, VS Code and other notebooks: the page that `html` writes, in a cell.

    Parameters
    ----------
    run, title, words, member, frames
        As in `html`.
    height
        Height of the cell, in pixels.

    Returns
    -------
    An anywidget with the traits `page` and `height`; a notebook shows it as the last value of a cell.

    Raises
    ------
    ValueError
        If the extra [notebook] is not installed, or no page can be made of `run`.

    Examples
    --------
    >>> import attnflow as af
    >>> tokens = af.initial.sphere(4, 3, rng=0)
    >>> run = af.simulate(af.SphereAttention(af.Head.identity(3)), tokens, [0.0, 1.0], progress=False)
    >>> af.show.widget(run, height=400).height
    400
    """
    player = _player()
    require_count(height, "height")
    return player(page=page_of(run, title, words, member, frames), height=height)


@cache
def _player() -> Any:
    require_extra("notebook", "A widget", instead="Use `show.html`")
    import anywidget
    import traitlets

    class RunPlayer(anywidget.AnyWidget):
        _esm = SCRIPT
        page = traitlets.Unicode().tag(sync=True)
        height = traitlets.Int(640).tag(sync=True)

    return RunPlayer
