"""Figures of the slides of Sugolov and Aubry (2023)."""

from attnflow.figures.figure import Figure

FIGURES: tuple[Figure, ...] = ()
