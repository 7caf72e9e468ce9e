"""The figures by id, in the order of the report and its chapters."""

from functools import cache

from attnflow._common.checks import require_known
from attnflow.figures.entries import (
    aggregation,
    boolean_exceptions,
    causal,
    collapse_times,
    control,
    emergence,
    euler_steps,
    hardmax,
    hysteresis,
    kernel_modes,
    long_context,
    lost_in_middle,
    mean_field_limit,
    metastability,
    noise_and_beta,
    normalisation,
    polytope_counts,
    random_weights,
    renyi_centres,
    sphere,
    sphere_clusters,
    sugolov_aubry,
    trained,
    two_token_force,
    value_spectrum,
)
from attnflow.figures.figure import Figure

CHAPTERS = {
    "Clusters in Euclidean space": (emergence, boolean_exceptions, polytope_counts),
    "The slides of Sugolov and Aubry": (sugolov_aubry,),
    "Clusters on the sphere": (sphere,),
    "Causal attention": (
        causal,
        value_spectrum,
        random_weights,
        renyi_centres,
        two_token_force,
        sphere_clusters,
    ),
    "Metastable clusters": (metastability,),
    "Variants of attention": (
        normalisation,
        collapse_times,
        euler_steps,
        hardmax,
        long_context,
        lost_in_middle,
        noise_and_beta,
    ),
    "The mean field": (hysteresis, mean_field_limit, aggregation, kernel_modes),
    "Control": (control,),
    "Trained weights": (trained,),
}


@cache
def catalogue() -> dict[str, Figure]:
    """All figures by id."""
    return {figure.id: figure for sources in CHAPTERS.values() for source in sources for figure in source.FIGURES}


def chapter_of(name: str) -> str:
    """The chapter of a figure; an empty text for a figure that is not in the catalogue.

    Examples
    --------
    >>> chapter_of("boolean-1d"), chapter_of("mine")
    ('Clusters in Euclidean space', '')
    """
    holds = lambda sources: any(figure.id == name for source in sources for figure in source.FIGURES)
    return next((chapter for chapter, sources in CHAPTERS.items() if holds(sources)), "")


def find(name: str) -> Figure:
    """The figure of an id, or InputError with the nearest known id."""
    require_known(name, catalogue(), "figure")
    return catalogue()[name]
