"""All figures there are, by id, in the order of the report and its chapters."""

from functools import cache

from attnflow._common.checks import require_known
from attnflow.figures.entries import (
    beyond,
    causal,
    centres,
    emergence,
    metastability,
    noise_and_beta,
    slides,
    sphere,
    trained,
)
from attnflow.figures.figure import Figure

CHAPTERS = {
    "Clusters in Euclidean space": (emergence,),
    "The slides of Sugolov and Aubry": (slides,),
    "Clusters on the sphere": (sphere,),
    "Causal attention": (causal, centres),
    "Metastable clusters": (metastability,),
    "Further afield": (beyond, noise_and_beta),
    "Trained weights": (trained,),
}


@cache
def catalogue() -> dict[str, Figure]:
    """Every entry by its id."""
    return {figure.id: figure for sources in CHAPTERS.values() for source in sources for figure in source.FIGURES}


def chapter_of(name: str) -> str:
    """The chapter that a figure stands in; nothing for one that is not in the catalogue.

    Examples
    --------
    >>> chapter_of("boolean-1d"), chapter_of("mine")
    ('Clusters in Euclidean space', '')
    """
    holds = lambda sources: any(figure.id == name for source in sources for figure in source.FIGURES)
    return next((chapter for chapter, sources in CHAPTERS.items() if holds(sources)), "")


def find(name: str) -> Figure:
    """The entry of that id."""
    require_known(name, catalogue(), "figure")
    return catalogue()[name]
