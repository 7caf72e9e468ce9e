"""`html`: a run as a single page that plays it in any browser, without a server."""

import os
from pathlib import Path
from typing import Any

from attnflow._common.files import require_free, written_beside
from attnflow._common.renamed import renamed_argument
from attnflow.explorer.export.recorded_run import Caption, recorded_messages, recorded_run
from attnflow.explorer.export.single_page import single_page


@renamed_argument("runs", "member")
def html(
    run: Any,
    path: str | os.PathLike,
    *,
    title: str | None = None,
    words: str = "",
    member: int = 0,
    frames: int = 300,
) -> Path:
    """Write a run as one self-contained HTML file: the explorer's picture and panels, playing the saved times.

    The file can be opened from a disk, sent by mail or put on a website. It loads nothing and contacts no server.

    Parameters
    ----------
    run
        A dataset made by `simulate` (with its tokens), by `coalesce`, or by a trained model's `trajectory`.
    path
        Where to write the page; an older one is replaced.
    title, words
        The title, by default the name of the model, and the text below the picture, by default the run's outcome.
    member
        Which run of an ensemble.
    frames
        Largest number of saved times on the page; fewer are taken if the tokens of one time are many.

    Returns
    -------
    The path.

    Raises
    ------
    ValueError
        If `run` is no such result, has fewer than two times, or nothing can be written at `path`.

    Examples
    --------
    >>> import tempfile, numpy as np, attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(3))
    >>> run = af.simulate(flow, af.initial.sphere(8, 3, rng=0), np.linspace(0, 5, 20))
    >>> page = af.show.html(run, Path(tempfile.mkdtemp()) / "run.html")
    >>> "http" in page.read_text().split("<body>")[1]  # nothing is loaded from elsewhere
    False
    """
    path = require_free(path, overwrite=True)
    text = page_of(run, title, words, member, frames)
    with written_beside(path) as beside:
        beside.write_text(text, "utf-8")
    return path


def page_of(run: Any, title: str | None, words: str, member: int, frames: int) -> str:
    """The page as text."""
    recorded = recorded_run(run, member)
    caption = Caption(title or recorded.measurements.name, (words or _description(recorded.tokens, run),))
    return single_page(recorded_messages(recorded, caption, frames))


def _description(tokens: Any, run: Any) -> str:
    """Numbers of tokens, dimensions and times, and the outcome of the run."""
    times, n, d = tokens.shape
    sizes = f"{n} tokens in {d} dimension{'s' if d > 1 else ''}, at {times} times."
    return f"{sizes} {run.attrs.get('outcome', '')}".strip()
