"""Limits: the words for where tokens converge, and the record of a limit that a run shows."""

import dataclasses
import enum
from collections.abc import Mapping

WORDS = {
    "at-rest": "no token moves",
    "point-at-rest": "no token moves, all in one point",
    "polytope": "points of a polytope",
    "polytope-times-hyperplane": "polytope times a free subspace",
    "hyperplanes": "at most three parallel hyperplanes",
    "boolean": "attention of zeros and ones",
    "leaders": "the leaders",
    "zero": "all to zero",
    "diverging": "rescaled tokens diverge",
    "first-token": "all at the first token's start",
    "point": "one point",
    "point-of-subspace": "one point of L",
    "poles": "+xi and -xi",
    "cloud-around-subspace": "a cloud around L",
    "clouds-around-poles": "two clouds around +xi and -xi",
    "rotation": "rotation",
    "several-points": "several points",
    "undecided": "undecided at this time",
    "unknown": "nothing known",
}

# Limits that are special cases of a predicted one: two clouds may be points, and a point may be a particular one.
FULFILLED_BY = {
    "at-rest": ("point-at-rest",),
    "point": ("first-token", "point-of-subspace", "poles", "point-at-rest"),
    "first-token": ("point-at-rest",),
    "point-of-subspace": ("first-token",),
    "clouds-around-poles": ("poles",),
    "leaders": ("polytope", "several-points", "hyperplanes"),
    "boolean": ("polytope", "hyperplanes"),
}


class Quantity(enum.StrEnum):
    """The quantities by which a limit is recognised; distances are relative to the first spread, or to the radius."""

    LARGEST_MOVE = "largest move"
    LATE_MOVE = "late move"
    PLACES = "places"
    HYPERPLANES = "hyperplanes"
    WIDEST_GROUP = "widest"
    VERTICES = "vertices"
    RESIDUAL_OF_S = "residual of S"
    SIZE_OF_X = "size of x"
    SIZE_OF_Z = "size of z"
    FIRST_SIZE = "at the start"
    POWER_OF_TIME = "power of t"
    RATE = "rate"
    TURN = "turn between saved times"
    FROM_POLES = "farthest from +-xi"
    SPREAD = "spread"
    FROM_FIRST_TOKEN = "from x_1(0)"
    FROM_LEADING_SPACE = "from L"
    SHARE_IN_LEADING_SPACE = "share in L"
    SHARE_IN_TURNING_SPACE = "share in L'"
    SHARE_OF_UNIFORM_TOKENS = "of uniform tokens"
    SHARE_OF_LOST_TIMES = "share of times without tokens"


@dataclasses.dataclass(frozen=True)
class ObservedLimit:
    """The limit that a run shows, and the numbers by which it was recognised."""

    limit: str
    """One word of `WORDS`; "undecided" where the run has not got far enough."""
    numbers: Mapping[Quantity, float]

    @property
    def says(self) -> str:
        """The limit and its numbers in a sentence."""
        return f"{WORDS[self.limit]} ({', '.join(f'{name} {value:.3g}' for name, value in self.numbers.items())})"


def fulfils(predicted: str, observed: str) -> bool:
    """Whether an observed limit is the predicted one or a special case of it.

    Examples
    --------
    >>> fulfils("point", "first-token"), fulfils("first-token", "point")
    (True, False)
    """
    return observed == predicted or observed in FULFILLED_BY.get(predicted, ())
