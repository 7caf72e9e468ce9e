"""The images of the explorer: those named on the command line, and a drawn one.

A page names an image by its short name only, so that it cannot open files of this computer.
"""

import base64
import io
import itertools
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from attnflow._common.checks import require_known
from attnflow.models.images import read_colours

DRAWN = "shapes"
MAX_NAME = 60  # characters of an image's short name
MAX_SIDE = 224  # pixels of the drawn image
_given: dict[str, tuple[str, np.ndarray]] = {}  # path and colours (h, w, 3) of images named on the command line


def add(path: str | os.PathLike) -> str:
    """Read an image file; returns its short name, with a number where another file has that name."""
    colours = read_colours(Path(path))
    own = re.sub(r"[^\w.-]+", "-", Path(path).stem)[:MAX_NAME] or "image"
    file = os.path.abspath(path)
    names = (own if number == 1 else f"{own}-{number}" for number in itertools.count(1))
    name = next(one for one in names if one not in _given or _given[one][0] == file)
    _given[name] = file, colours
    return name


def forget(name: str) -> None:
    """Forget an image that was added."""
    _given.pop(name, None)


def names() -> list[str]:
    """The short names of all images, those of the command line first."""
    return [*_given, *([] if DRAWN in _given else [DRAWN])]


def get(name: str) -> np.ndarray:
    """The colours (h, w, 3) of an image, as uint8."""
    require_known(name, names(), "prompt")
    return _given[name][1] if name in _given else drawn()


def code(name: str) -> str:
    """The Python expression of an image, as a prompt of a model."""
    return repr(_given[name][0]) if name in _given else "pictures.drawn()"


@cache
def drawn() -> np.ndarray:
    """A disc, a square and a ring on a background whose brightness grows to the right.

    Examples
    --------
    >>> drawn().shape
    (224, 224, 3)
    """
    y, x = np.mgrid[:MAX_SIDE, :MAX_SIDE] / MAX_SIDE
    colours = np.stack([0.35 + 0.3 * x, 0.5 + 0.3 * x, 0.7 + 0.2 * x], axis=2)
    ring = np.hypot(x - 0.3, y - 0.75)
    shapes = {
        (0.85, 0.2, 0.15): np.hypot(x - 0.3, y - 0.3) < 0.18,
        (0.95, 0.75, 0.1): (abs(x - 0.72) < 0.16) & (abs(y - 0.35) < 0.16),
        (0.1, 0.35, 0.2): (ring > 0.08) & (ring < 0.16),
    }
    for colour, is_inside in shapes.items():
        colours[is_inside] = colour
    return np.round(255 * colours).astype(np.uint8)


def picture_field(picture: np.ndarray, grid: tuple[int, int], first: int) -> dict[str, Any]:
    """The field `picture` of PROTOCOL.md: an image with colours from 0 to 1, and where its patches are."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(np.round(255 * picture).astype(np.uint8)).save(file, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    return {"url": url, "rows": grid[0], "columns": grid[1], "first": first}
