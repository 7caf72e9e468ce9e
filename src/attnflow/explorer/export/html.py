"""`html`: a run as a single page that plays it in any browser, without a server."""

import os
from pathlib import Path
from typing import Any

from attnflow._common.files import require_free, written_beside
from attnflow._common.renamed import renamed_argument
from attnflow.explorer.export.recorded_run import Caption, film_of, reel_of
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
    """Write a run as one self-contained HTML file: the explorer's stage and panels, playing what was computed.

    It can be opened from a disk, sent by mail or put on a website; it loads nothing and talks to nobody.

    Parameters
    ----------
    run
        A dataset made by `simulate` (with its tokens), by `coalesce`, or by a trained model's `trajectory`.
    path
        Where to write the page; an older one is replaced.
    title, words
        Its title, instead of the name of the model, and what to read below the stage, instead of how the run went.
    member
        Which run of an ensemble.
    frames
        At most so many of the saved times are in it; fewer where frames are large.

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
    reel = reel_of(run, member)
    caption = Caption(title or reel.subject.name, (words or _described(reel.tokens, run),))
    return single_page(film_of(reel, caption, frames))


def _described(tokens: Any, run: Any) -> str:
    """How many tokens there are, and how it ended."""
    times, n, d = tokens.shape
    return (
        f"{n} tokens in {d} dimension{'s' if d > 1 else ''}, at {times} times. {run.attrs.get('outcome', '')}".strip()
    )
