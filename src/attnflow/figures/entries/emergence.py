"""Figures of arXiv:2305.05465: the limits of attention in R^d."""

from collections.abc import Callable
from typing import Any

import xarray as xr

from attnflow.figures.entries import emergence_attention, emergence_limits, emergence_rates
from attnflow.figures.entries.scenario_runs import scenario_run
from attnflow.figures.figure import Figure
from attnflow.theorems.verdict import Verdict
from attnflow.theorems.verify import verify

PAPER = "arXiv:2305.05465"
EULER = (
    "The published code calls its scheme RK4, but it is the Euler method with step 0.1: every stage sees the same "
    "attention. Here an adaptive method keeps the error of a step below 1e-8."
)
LONGER = f"{EULER} The run goes on after the published t = 5, since tokens approach their limit only like e^-t."
SLOWER = f"{EULER} The run goes on after the published t = 5, where more groups than the limit has may still be seen."


def verdicts_of(*names: str) -> Callable[[xr.Dataset], list[Verdict]]:
    """Function that gives the verdicts on the named statements for the run of a figure."""
    return lambda run: verify(run, only=names)


_BOX: dict[str, Any] = {"space": "rescaled", "start": "box:-5,5", "saves": 151}
_SMALL_MOVIE = {"frames": 8}
_HYPERPLANES: dict[str, Any] = {
    "draw": emergence_limits.draw_hyperplanes,
    "numbers": emergence_limits.hyperplane_numbers,
    "verdicts": verdicts_of("hyperplanes", "eigen-coordinates"),
}
_POLYTOPE: dict[str, Any] = {
    "compute": emergence_limits.compute_with_frames,
    "draw": emergence_limits.draw_polytope,
    "numbers": emergence_limits.polytope_numbers,
    "movie": emergence_limits.polytope_movie,
    "quick": _SMALL_MOVIE,
    "verdicts": verdicts_of("polytope", "shrinking-hull", "rank-bound"),
}
_COLUMNS: dict[str, Any] = {
    "compute": scenario_run,
    "draw": emergence_limits.draw_columns,
    "numbers": emergence_limits.column_numbers,
}

FIGURES = (
    Figure(
        id="boolean-1d",
        source=f"{PAPER}, low-rank Boolean attention on the line",
        title="Attention on the line becomes Boolean",
        shows="At first each token on the line attends to all tokens. As time goes on, every row of the "
        "attention matrix approaches a single entry, in the column of the leftmost or the rightmost token, at a "
        "doubly exponential rate.",
        deviates=f"{EULER} Weights next to one are formed from scores, so that 1 - P is known far below 1e-16.",
        compute=emergence_attention.compute_boolean,
        draw=emergence_attention.draw_boolean,
        numbers=emergence_attention.boolean_numbers,
        settings={"space": "rescaled", "start": "box:-1,1", "n": 40, "d": 1, "end": 12.0, "saves": 97, "seed": 0,
                  "moments": [0, 1, 2, 4, 12]},
        quick={},
        seconds=(8, 8),
        verdicts=verdicts_of("boolean-limit", "boolean-rate"),
    ),
    Figure(
        id="polytope-2d",
        source=f"{PAPER}, clustering to the vertices of a polygon",
        title="Tokens of the plane gather at the vertices of a polygon",
        shows="With V = I the convex hull of the rescaled tokens shrinks to a polygon. Nearly every token ends at one "
        "of its vertices, a few may end elsewhere on its boundary.",
        deviates=LONGER,
        settings=_BOX | {"n": 20, "d": 2, "end": 15.0, "seed": 1, "frames": 60},
        seconds=(11, 6),
        **_POLYTOPE,
    ),
    Figure(
        id="polytope-3d",
        source=f"{PAPER}, clustering to the vertices of a polyhedron",
        title="Tokens of space gather at the vertices of a polyhedron",
        shows="The same in three dimensions: the hull with its faces, and the paths of the tokens. The "
        "numbers count the vertices of the limit.",
        deviates=LONGER,
        settings=_BOX | {"n": 20, "d": 3, "end": 15.0, "seed": 1, "frames": 60},
        seconds=(11, 7),
        **_POLYTOPE,
    ),
    Figure(
        id="hyperplanes-2d",
        source=f"{PAPER}, clustering to hyperplanes, d = 2",
        title="One leading eigenvalue: parallel lines",
        shows="The published 2 x 2 matrix V has eigenvalues 1.35 and -0.07. Only the coordinate along its leading left "
        "eigenvector converges, so that tokens spread along two parallel lines.",
        deviates=SLOWER,
        settings=_BOX | {"n": 40, "d": 2, "value": "published-2d", "end": 15.0, "seed": 0, "frames": 60},
        seconds=(9, 6),
        compute=emergence_limits.compute_with_frames,
        movie=emergence_limits.hyperplane_movie,
        quick=_SMALL_MOVIE,
        **_HYPERPLANES,
    ),
    Figure(
        id="hyperplanes-3d-decaying",
        source=f"{PAPER}, clustering to hyperplanes, d = 3, other real parts negative",
        title="One leading eigenvalue in space: parallel planes, tokens still growing in them",
        shows="The published V has eigenvalue 0.99 and a complex pair with negative real part. Tokens gather on two "
        "parallel planes, and spiral outwards in them.",
        deviates=SLOWER,
        settings=_BOX | {"n": 40, "d": 3, "value": "published-3d-decaying", "end": 18.0, "saves": 181, "seed": 0},
        seconds=(5, 5),
        compute=scenario_run,
        quick={},
        **_HYPERPLANES,
    ),
    Figure(
        id="hyperplanes-3d-growing",
        source=f"{PAPER}, clustering to hyperplanes, d = 3, other real parts positive",
        title="One leading eigenvalue in space: parallel planes",
        shows="The published V has eigenvalue 1.08 and a complex pair with small positive real part. Planes appear "
        "first; within them tokens come closer much more slowly.",
        deviates=SLOWER,
        settings=_BOX | {"n": 40, "d": 3, "value": "published-3d-growing", "end": 15.0, "seed": 0},
        seconds=(2, 2),
        compute=scenario_run,
        quick={},
        **_HYPERPLANES,
    ),
    Figure(
        id="codimension-2",
        source=f"{PAPER}, the codimension conjecture",
        title="Two positive eigenvalues: parallel lines in space",
        shows="The published symmetric V has two positive eigenvalues and a negative one. As conjectured, tokens "
        "gather on at most three parallel lines, first along the leading eigenvector and much later along the second.",
        deviates=f"{SLOWER} Axes are the eigen-coordinates, in which the lines stand upright.",
        settings=_BOX | {"n": 40, "d": 3, "value": "published-codim2", "end": 60.0, "saves": 301, "seed": 0},
        quick={"end": 20.0, "saves": 101},
        seconds=(15, 4),
        verdicts=verdicts_of("codimension-k"),
        **_COLUMNS,
    ),
    Figure(
        id="polytope-times-hyperplane",
        source=f"{PAPER}, mix of polytope and hyperplanes",
        title="V = diag(1, 1, -1/2): a polygon times a line",
        shows="On the plane where V is the identity tokens gather at the vertices of a polygon. Along the third axis "
        "they diverge, so that they end on vertical lines.",
        deviates=LONGER,
        settings=_BOX | {"n": 40, "d": 3, "value": "diagonal:1,1,-0.5", "end": 15.0, "seed": 0},
        quick={},
        seconds=(2, 2),
        verdicts=verdicts_of("polytope-times-hyperplane"),
        **_COLUMNS,
    ),
    Figure(
        id="leaders-graph",
        source=f"{PAPER}, leaders in the plane",
        title="Leaders in the plane",
        shows="Arrows go from every token to the tokens it attends to, under random positive definite V and Q^T K. "
        "At first every token attends to all tokens; in the end a few leaders get all attention.",
        deviates=EULER,
        compute=emergence_limits.compute_leaders,
        draw=emergence_limits.draw_leaders,
        numbers=emergence_limits.leader_numbers,
        settings={"n": 20, "end": 10.0, "saves": 41, "seed": 0},
        quick={},
        seconds=(5, 5),
        verdicts=verdicts_of("hyperplanes"),
    ),
    Figure(
        id="rank-80",
        source=f"{PAPER}, low rank in high dimension",
        title="In high dimension the attention matrix loses its rank",
        shows="At first every token attends to itself and P has full rank. As the leading directions of V dominate, "
        "fewer and fewer columns are left; the second row is the flow x' = V x without attention.",
        deviates="The published script integrates x' = V x, without attention; both are shown, and they differ. V is "
        "divided by its largest eigenvalue, so that the ranks fall within the time shown.",
        compute=emergence_attention.compute_rank,
        draw=emergence_attention.draw_rank,
        numbers=emergence_attention.rank_numbers,
        settings={"n": 40, "d": 80, "end": 11.0, "saves": 45, "seed": 0},
        quick={"n": 20, "d": 40, "saves": 23},
        seconds=(8, 6),
    ),
    Figure(
        id="coordinates-128",
        source=f"{PAPER}, converging and diverging coordinates",
        title="Tokens in high dimension: which coordinates converge",
        shows="Coordinates along eigenvectors of V with positive eigenvalues stay bounded and settle. Coordinates "
        "with negative eigenvalues diverge exponentially, the faster the more negative the eigenvalue is.",
        deviates="As published, this is a network with residual step 0.1 and 150 layers, not a flow; rescaled by the "
        "exact (I + 0.1 V)^-k instead of e^-tV.",
        compute=emergence_rates.compute_coordinates,
        draw=emergence_rates.draw_coordinates,
        numbers=emergence_rates.coordinate_numbers,
        settings={"n": 128, "d": 128, "end": 15.0, "step": 0.1, "seed": 0},
        quick={},
        seconds=(4, 4),
    ),
    Figure(
        id="minus-identity",
        source=f"{PAPER}, the case V = -I",
        title="V = -I: all tokens go to zero, slowly",
        shows="With V = -I tokens repel what they attend to and all go to zero. They do so only like one over the root "
        "of time: their covariance is I/(2t) in the long run, and attention becomes equal like 1/t.",
        deviates=f"{EULER} Times are logarithmic up to 1000, since the decay is algebraic.",
        compute=emergence_rates.compute_minus,
        draw=emergence_rates.draw_minus,
        numbers=emergence_rates.minus_numbers,
        settings={
            "space": "euclidean", "n": 40, "d": 2, "value": "minus-identity", "start": "box:-5,5", "end": 1000.0,
            "saves": 61, "spacing": "log", "seed": 0,
        },
        quick={},
        seconds=(5, 5),
        verdicts=verdicts_of("minus-identity"),
    ),
    Figure(
        id="two-time-scales",
        source=f"{PAPER}, the two phases of the proof",
        title="A shrinking hull, then hardmax",
        shows="From a small start the hull shrinks while attention is still spread. Then attention is hardmax to any "
        "precision and every token moves straight to its vertex, like e^-t.",
        deviates=EULER,
        compute=emergence_rates.compute_scales,
        draw=emergence_rates.draw_scales,
        numbers=emergence_rates.scale_numbers,
        settings=_BOX | {"start": "box:-1,1", "n": 20, "d": 2, "end": 15.0, "seed": 1},
        quick={},
        seconds=(3, 3),
        verdicts=verdicts_of("shrinking-hull"),
    ),
)  # fmt: skip
