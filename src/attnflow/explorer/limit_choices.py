"""Answers to "Where will the tokens go?", each with the limits of the theorems that it means."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LimitChoice:
    """One answer that a page offers."""

    words: str
    limits: tuple[str, ...]
    """Words of `theorems.prediction.limits.WORDS`."""
    on_sphere: bool = True
    in_space: bool = True


CHOICES = (
    LimitChoice("to one point", ("point", "point-of-subspace", "first-token")),
    LimitChoice("to two opposite points, or close to them", ("poles", "clouds-around-poles"), in_space=False),
    LimitChoice("to several points", ("several-points",)),
    LimitChoice("close to a subspace", ("cloud-around-subspace",), in_space=False),
    LimitChoice("to corners of a polytope", ("polytope",), on_sphere=False),
    LimitChoice("to parallel hyperplanes: points, lines or planes", ("hyperplanes",), on_sphere=False),
    LimitChoice("to a polytope times a free subspace", ("polytope-times-hyperplane",), on_sphere=False),
    LimitChoice("to tokens that attend to themselves", ("leaders",), on_sphere=False),
    LimitChoice("to zero", ("zero",), on_sphere=False),
    LimitChoice("away without bound", ("diverging",), on_sphere=False),
    LimitChoice("anywhere, but each attends to one token in the end", ("boolean",), on_sphere=False),
    LimitChoice("round and round", ("rotation",)),
    LimitChoice("nowhere: they rest", ("at-rest", "point-at-rest")),
)
