"""All figures there are, by id, in the order of the report."""

from functools import cache

from attnflow._checks import require_known
from attnflow.figures import (
    beyond,
    causal,
    centres,
    emergence,
    metastability,
    slides,
    sphere,
    thresholds,
    trained,
)
from attnflow.figures.figure import Figure


@cache
def catalogue() -> dict[str, Figure]:
    """Every entry by its id."""
    sources = (emergence, slides, sphere, causal, centres, metastability, beyond, thresholds, trained)
    return {figure.id: figure for source in sources for figure in source.FIGURES}


def find(name: str) -> Figure:
    """The entry of that id."""
    require_known(name, catalogue(), "figure")
    return catalogue()[name]
