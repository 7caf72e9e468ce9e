"""Figures of arXiv:2305.05465: the limits of attention in R^d."""

from collections.abc import Callable
from typing import Any

import xarray as xr

from attnflow.figures.entries import emergence_attention, emergence_limits, emergence_rates, leaders_graph
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
    "fixed": ("space", "d", "value"),
    "draw": emergence_limits.draw_hyperplanes,
    "numbers": emergence_limits.hyperplane_numbers,
    "verdicts": verdicts_of("hyperplanes", "eigen-coordinates"),
}
_POLYTOPE: dict[str, Any] = {
    "fixed": ("space", "d"),
    "compute": emergence_limits.compute_with_frames,
    "draw": emergence_limits.draw_polytope,
    "numbers": emergence_limits.polytope_numbers,
    "movie": emergence_limits.polytope_movie,
    "quick": _SMALL_MOVIE,
    "verdicts": verdicts_of("polytope", "shrinking-hull", "rank-bound"),
}
_COLUMNS: dict[str, Any] = {
    "fixed": ("space", "d", "value"),
    "compute": scenario_run,
    "draw": emergence_limits.draw_columns,
    "numbers": emergence_limits.column_numbers,
}

FIGURES = (
    Figure(
        id="boolean-1d",
        source=f"{PAPER}, low-rank Boolean attention on the line",
        title="The attention matrix of tokens on the line",
        shows="The attention matrix P at several times, the tokens, and the distance of P to the nearest matrix whose "
        "rows are unit vectors. The last panel fits the slope of log(-log(1 - P)) for the last token's weight on "
        "itself, which is 1 in theory.",
        deviates=f"{EULER} Weights next to one are formed from scores, so that 1 - P is known far below 1e-16.",
        compute=emergence_attention.compute_boolean,
        draw=emergence_attention.draw_boolean,
        numbers=emergence_attention.boolean_numbers,
        settings={"space": "rescaled", "start": "box:-1,1", "n": 40, "d": 1, "end": 12.0, "saves": 97, "seed": 0,
                  "moments": [0.0, 1.0, 2.0, 4.0, 12.0]},
        fixed=("space", "d"),
        quick={},
        seconds=(8, 8),
        verdicts=verdicts_of("boolean-limit", "boolean-rate"),
    ),
    Figure(
        id="polytope-2d",
        source=f"{PAPER}, clustering to the vertices of a polygon",
        title="V = I in the plane: tokens and their convex hull",
        shows="Rescaled tokens and their convex hull at several times, under V = I. The numbers count the vertices of "
        "the limit and the tokens at them.",
        deviates=LONGER,
        settings=_BOX | {"n": 20, "d": 2, "end": 15.0, "seed": 1, "frames": 60},
        seconds=(11, 6),
        **_POLYTOPE,
    ),
    Figure(
        id="polytope-3d",
        source=f"{PAPER}, clustering to the vertices of a polyhedron",
        title="V = I in space: tokens and their convex hull",
        shows="Rescaled tokens of R^3, their paths, and the faces of their convex hull at several times, under V = I. "
        "The numbers count the vertices of the limit and the tokens at them.",
        deviates=LONGER,
        settings=_BOX | {"n": 20, "d": 3, "end": 15.0, "seed": 1, "frames": 60},
        seconds=(11, 7),
        **_POLYTOPE,
    ),
    Figure(
        id="hyperplanes-2d",
        source=f"{PAPER}, clustering to hyperplanes, d = 2",
        title="One positive eigenvalue in the plane: parallel lines",
        shows="Tokens at several times under the published 2 x 2 matrix V, which has eigenvalues 1.35 and -0.07. Lines "
        "are drawn where the tokens of one colour have the same coordinate along the leading left eigenvector at the "
        "end.",
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
        title="One leading eigenvalue in space, the other real parts negative: parallel planes",
        shows="Tokens at several times under the published V, which has eigenvalue 0.99 and a complex pair with "
        "negative real part. Planes are drawn where the tokens of one colour have the same leading coordinate at the "
        "end.",
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
        title="One leading eigenvalue in space, the other real parts positive: parallel planes",
        shows="Tokens at several times under the published V, which has eigenvalue 1.08 and a complex pair with small "
        "positive real part. Planes are drawn where the tokens of one colour have the same leading coordinate at the "
        "end.",
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
        title="Two positive eigenvalues in space: parallel lines",
        shows="Tokens at several times under the published symmetric V, which has two positive eigenvalues and a "
        "negative one. The lines pass through the groups of tokens at the end; the conjecture allows at most three.",
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
        title="V = diag(1, 1, -1/2): tokens in space and seen from above",
        shows="Tokens at several times, with lines through the groups at the end, and the end seen along the third "
        "axis. In theory tokens are at vertices of a polygon in the plane where V is the identity, and diverge along "
        "the third axis.",
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
        "The number of tokens that get attention stands above every panel.",
        deviates=EULER,
        compute=leaders_graph.compute_leaders,
        draw=leaders_graph.draw_leaders,
        numbers=leaders_graph.leader_numbers,
        settings={"n": 20, "end": 10.0, "saves": 41, "seed": 0},
        quick={},
        seconds=(5, 5),
        verdicts=verdicts_of("hyperplanes"),
    ),
    Figure(
        id="rank-80",
        source=f"{PAPER}, low rank in high dimension",
        title="The rank of the attention matrix in high dimension",
        shows="The attention matrix P at several times and its rank over time. The second row is the flow x' = V x "
        "without attention, from the same start.",
        deviates="The published script integrates x' = V x, without attention; both are shown, and they differ. V is "
        "divided by its largest eigenvalue, so that one unit of time is that of the leading direction.",
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
        title="Coordinates of tokens in high dimension, by eigenvalue of V",
        shows="The standard deviation over tokens of every coordinate along an eigenvector of V: over time, and at the "
        "end against the eigenvalue. In theory those with positive eigenvalues are bounded and the others diverge.",
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
        title="V = -I: norms, covariance and attention over time",
        shows="Norms of the tokens, 2t times their covariance, and the distance of attention from 1/n, over "
        "logarithmic time. Dashed lines are the laws of theory: t^-1/2 for norms, I/(2t) for the covariance and 1/t "
        "for attention.",
        deviates=f"{EULER} Times are logarithmic up to 1000, since the decay is algebraic.",
        compute=emergence_rates.compute_minus,
        draw=emergence_rates.draw_minus,
        numbers=emergence_rates.minus_numbers,
        settings={
            "space": "euclidean", "n": 40, "d": 2, "value": "minus-identity", "start": "box:-5,5", "end": 1000.0,
            "saves": 61, "spacing": "log", "seed": 0,
        },
        fixed=("space", "value", "spacing"),
        quick={},
        seconds=(5, 5),
        verdicts=verdicts_of("minus-identity"),
    ),
    Figure(
        id="two-time-scales",
        source=f"{PAPER}, the two phases of the proof",
        title="Two time scales: the hull and hardmax attention",
        shows="The volume of the hull that is still to be lost, the distance of attention from hardmax, and the "
        "distance of tokens to their limit. A line marks the time from which attention is hardmax "
        "within 0.01; the dashed line is the law e^-t of theory.",
        deviates=EULER,
        compute=emergence_rates.compute_scales,
        draw=emergence_rates.draw_scales,
        numbers=emergence_rates.scale_numbers,
        settings=_BOX | {"start": "box:-1,1", "n": 20, "d": 2, "end": 15.0, "seed": 1},
        fixed=("space",),
        quick={},
        seconds=(3, 3),
        verdicts=verdicts_of("shrinking-hull"),
    ),
)  # fmt: skip
