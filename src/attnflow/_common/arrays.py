"""Names of array shapes. Axes: n tokens, d coordinates, k inner coordinates of a head."""

import numpy as np
from jaxtyping import Array, Float, Int, Real

AnyArray = Array | np.ndarray

Tokens = Float[AnyArray, "n d"]
TokensOfRuns = Float[AnyArray, "*runs n d"]
RadiiOfRuns = Float[AnyArray, "*runs n"]
Radii = Float[AnyArray, "n"]
Masses = Float[AnyArray, "n"]
Scores = Float[AnyArray, "rows columns"]
Indices = Int[AnyArray, "rows"]
Matrix = Float[AnyArray, "rows columns"]
Scalar = Real[AnyArray, ""] | float | int
Times = Float[AnyArray, "times"]
