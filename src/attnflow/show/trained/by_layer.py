"""What pictures of trained models share: panels over layers, a colour for each layer, the prompt in a title."""

from collections.abc import Sequence
from textwrap import shorten
from typing import Any

import numpy as np
import xarray as xr

from attnflow.show.parts.page import LIGHT, theme
from attnflow.show.parts.panels import Line, Lines
from attnflow.show.parts.style import from_oklch
from attnflow.show.parts.symbols import literal


def layer_panel(lines: Sequence[Line], title: str = "", **options: Any) -> Lines:
    """Panel of lines over layers."""
    return Lines(lines, xlabel="layer", has_integer_x=True, title=title, **options)


def layer_colours(count: int) -> np.ndarray:
    """Colours (count, 3) of layers from the first to the last.

    They go from yellow through green and blue to violet and become darker, so that they differ also without hue; less
    dark on a dark page.
    """
    share = np.linspace(0, 1, max(count, 2))[-count:] if count > 1 else np.ones(1)
    fall = 0.5 if theme() is LIGHT else 0.3  # of lightness
    return np.clip(from_oklch(0.88 - fall * share, np.full(count, 0.14), 1.7 + 3.7 * share), 0, 1)


def has_name(layer: int, count: int) -> bool:
    """Whether a layer is named in a legend: all of up to eight layers, else the first and the last."""
    return count <= 8 or layer in (0, count - 1)


def quoted_prompt(dataset: xr.Dataset, *, begins: bool = False) -> str:
    """The beginning of the prompt of a dataset, up to 60 letters, in quotation marks; of an image its patches.

    `begins` tells that a sentence begins with it.

    Examples
    --------
    >>> quoted_prompt(xr.Dataset(coords={"word": ("token", ["[CLS]", "the", "cat", "[SEP]"])}))
    '“[CLS] the cat [SEP]”'
    """
    patches = dataset.word.attrs.get("patches")
    if patches is not None:
        return f"{'An' if begins else 'an'} image of {patches} patches"
    text = " ".join(str(word) for word in dataset.word.values)
    return literal(f"“{shorten(text, 60, placeholder=' …')}”")
