"""The method of `stream`, as its results record it."""

import dataclasses

from attnflow._common.checks import require_positive_number


@dataclasses.dataclass(frozen=True)
class TokenByToken:
    """Radau collocation of one token after the other, to a tolerance for each piece of a path.

    It belongs to `stream` alone: `simulate`, which moves all tokens at once, does not take it.
    """

    tolerance: float
    """Size of the last Legendre coefficients of a piece: absolute on the sphere, relative to the token in R^d."""

    def __post_init__(self):
        require_positive_number(self.tolerance, "tolerance")

    @property
    def rtol(self) -> float:
        """The tolerance, under the name that adaptive solvers use."""
        return self.tolerance

    @property
    def atol(self) -> float:
        """The tolerance, under the name that adaptive solvers use."""
        return self.tolerance
