"""Guided tours: for the main scenarios a few settings to look at in turn, each with a caption.

Every step is a run of its own from the scenario's first tokens, so that a link to it restores exactly what was seen.
`tests/explorer/test_tours.py` checks the statements of the captions against runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class TourStep:
    """A caption, and the settings that differ from those of the scenario."""

    words: str
    changes: Mapping[str, Any] = field(default_factory=dict)


TOURS: dict[str, tuple[TourStep, ...]] = {
    "sphere": (
        TourStep(
            "64 tokens start at random on the sphere. Each moves towards the tokens that are similar to it, and more "
            "so the more similar they are. Let it run to the end: how many clusters are left?"
        ),
        TourStep(
            "The same first tokens at beta = 9. Attention now reaches near neighbours only: six clusters form and "
            "stay until t = 15. What keeps them apart?",
            {"beta": 9.0},
        ),
        TourStep(
            "The same run, but to t = 300. The clusters were not at rest: they drift and merge, the later the slower."
            " Theory says that in the end one is left; the time for it grows exponentially with beta.",
            {"beta": 9.0, "end": 300.0},
        ),
        TourStep(
            "With V = -I every token moves away from the tokens that it attends to. Watch the energy fall while the "
            "tokens spread over the sphere.",
            {"value": "minus-identity"},
        ),
    ),
    "polytope": (
        TourStep(
            "Tokens in the plane with V = I, divided by their growth e^t. The hull of all tokens shrinks. Where do "
            "the dots stop?"
        ),
        TourStep(
            "Another random start: the polygon is another one. Its corners depend on all first tokens, not on the "
            "model alone.",
            {"seed": 3},
        ),
        TourStep(
            "Ten times as many tokens from the same square. Are there ten times as many corners? Count the clusters.",
            {"n": 200},
        ),
        TourStep(
            "A causal mask: every token sees only earlier ones, and the hull that matters differs from token to "
            "token. More than the corners of one polygon remain.",
            {"mask": "causal"},
        ),
    ),
    "hyperplanes": (
        TourStep(
            "V has one positive eigenvalue. Along its eigenvector the tokens take two or three values only: they line"
            " up on parallel lines. Find the lines before the run ends."
        ),
        TourStep(
            "Another start, the same V: the direction of the lines is the same, since it depends on V only. Their "
            "distances are others.",
            {"seed": 5},
        ),
        TourStep(
            "With V = I all directions grow alike, and there are no lines: tokens gather at the corners of a polygon."
            " What would you expect between the two?",
            {"value": "identity"},
        ),
    ),
    "causal": (
        TourStep(
            "Under a causal mask token 1 sees only itself: with V = I it does not move. Time is logarithmic here. "
            "Which token arrives at it last?"
        ),
        TourStep(
            "Eight tokens only. Point at a dot to see which tokens it attends to: never a later one. Token 2 is "
            "pulled by token 1 alone, token 3 by both.",
            {"n": 8},
        ),
        TourStep(
            "With V = diag(2, 1, 0.5) token 1 is no longer at rest: it turns towards the eigenvector of the largest "
            "eigenvalue and the others follow.",
            {"value": "diagonal:2,1,0.5"},
        ),
    ),
    "renyi": (
        TourStep(
            "200 tokens on the circle under a causal mask at beta = 64. Ringed tokens started far from all earlier "
            "ones: each collects the tokens around it. How many clusters are left at the end?"
        ),
        TourStep(
            "beta = 16: attention reaches farther, fewer tokens start out of reach of all earlier ones, and fewer "
            "clusters are left.",
            {"beta": 16.0},
        ),
        TourStep(
            "beta = 256: the reach is of order 1 / sqrt(beta), and more clusters are left. Count the rings: does "
            "their number double when beta is four times as large?",
            {"beta": 256.0},
        ),
    ),
    "noisy": (
        TourStep(
            "Attention pulls tokens together, noise drives them apart. At kappa = 8 attention wins: the tokens gather"
            " on one side, and noise keeps the group wide."
        ),
        TourStep(
            "More noise, kappa = 0.5. The tokens stay spread over the circle. Somewhere between the two settings "
            "order begins: at beta = 1 theory says kappa = 1.77.",
            {"kappa": 0.5},
        ),
        TourStep(
            "Little noise, kappa = 50: one narrow cluster. Its width is set by the balance of noise and attraction.",
            {"kappa": 50.0},
        ),
    ),
    "hardmax": (
        TourStep(
            "Each token attends only to the token with the largest score. Tokens that score themselves highest are "
            "leaders and do not move (in this frame). How many are there?"
        ),
        TourStep(
            "Another start: five clusters again, in other places. Turn to the attention matrix: which columns are "
            "black?",
            {"seed": 2},
        ),
        TourStep(
            "Softmax with beta = 1 from the start of the first step. The scores grow with the tokens, so that softmax"
            " turns into hardmax: compare the corners.",
            {"attention": "softmax"},
        ),
    ),
    "layernorm-post": (
        TourStep(
            "Post-LN: only directions are kept, and the tokens meet exponentially fast. Note the time at which one "
            "cluster is left."
        ),
        TourStep(
            "Pre-LN from a start with lengths: the lengths grow with depth, and every further layer turns the tokens "
            "less. At t = 20 several clusters are left.",
            {"normalisation": "pre", "start": "gaussian"},
        ),
        TourStep(
            "The same to t = 100: Pre-LN gathers the tokens as well, but like a power of t and not exponentially.",
            {"normalisation": "pre", "start": "gaussian", "end": 100.0},
        ),
    ),
}
