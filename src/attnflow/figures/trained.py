"""Figures of trained weights."""

from attnflow.figures.figure import Figure

FIGURES: tuple[Figure, ...] = ()
