"""Measures: the quantities that a sweep keeps of every run, and their reductions over runs.

A measure is a word of `experiments.vocabulary.OBSERVABLES`, computed inside the run, or one of `MEASURES`, computed
from the saved tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError, require_known
from attnflow.analyse import attention_rank, clusters, leaders, polytope, renyi
from attnflow.analyse.spectra import Spectrum, spectrum
from attnflow.experiments import specs
from attnflow.experiments.vocabulary import OBSERVABLES, Vocabulary, Word
from attnflow.integrate.evaluate import attention_matrix
from attnflow.model.heads import Head

DEFAULT_DISTANCE = 0.01  # chord or distance within which tokens are one cluster, as in `clusters.count`
MOST_ATTENTION = 0.5  # a token leads if another one gives it more than half of its attention
PER_RUN = (
    "end-time", "step-count", "vertices", "leaders", "rank", "final-clusters", "scaled-clusters", "unaligned",
)  # fmt: skip
OF_PATH = ("captured", "strongly-captured")  # compare the tokens with the first ones
IN_UNITS_OF_BETA = ("scaled-clusters", *OF_PATH)  # lengths are multiples of beta^-1/2
OF_ALL_TIMES = ("clusters", *OF_PATH)  # need the tokens at all times
WHOLE = ("clusters", "step-count", "vertices", "leaders", "rank", "final-clusters", "scaled-clusters")
"""Measures whose values are whole numbers, of which runs can be counted."""


@dataclass(frozen=True)
class Measured:
    """The runs of one cell in a batch, as a measure sees them."""

    flow: Any
    runs: xr.Dataset


def _final(function: Callable[[Measured, np.ndarray, float], float]) -> Callable[[Measured], np.ndarray]:
    """A measure of the last tokens of every run; NaN where a token is not finite."""

    def measure(found: Measured) -> np.ndarray:
        ends = zip(found.runs.final_tokens.values, found.runs.final_time.values, strict=True)
        return np.array(
            [function(found, tokens, float(time)) if np.isfinite(tokens).all() else np.nan for tokens, time in ends]
        )

    return measure


def _attention(found: Measured, tokens: np.ndarray, time: float) -> np.ndarray:
    """The attention matrix, of several heads their mean."""
    matrix = np.asarray(attention_matrix(found.flow, tokens, time))
    return matrix if matrix.ndim == 2 else matrix.mean(axis=0)


def _clusters(distance: float) -> Callable[[Measured], np.ndarray]:
    def measure(found: Measured) -> np.ndarray:
        counted = clusters.count(found.runs, distance).values.astype(float)
        return np.where(counted < 0, np.nan, counted)

    return measure


def _beta(flow: Any) -> float:
    """The beta of the attention rule; InputError if it has none."""
    if flow.beta is None or not flow.beta > 0:
        raise InputError(
            f"The measures {', '.join(map(repr, IN_UNITS_OF_BETA))} have units of beta^-1/2 and need an attention rule "
            "with a positive beta."
        )
    return flow.beta


def _scaled_clusters(radius: float) -> Callable[[Measured], np.ndarray]:
    return _final(lambda found, x, time: int(clusters.labels(x, radius / np.sqrt(_beta(found.flow))).max()) + 1)


def _captured(separation: float, radius: float, is_strong: bool) -> Callable[[Measured], np.ndarray]:
    """Share of tokens within `radius` beta^-1/2 of a Renyi centre of the start, over (run, time)."""

    def measure(found: Measured) -> np.ndarray:
        beta = _beta(found.flow)
        delta, within = renyi.separation(beta, separation), radius / np.sqrt(beta)
        return renyi.captured_fraction(found.runs, delta, within, strong=is_strong).values

    return measure


def _leading(flow: Any) -> Spectrum:
    """The spectrum of V; InputError unless there is one head, and V has a simple real leading eigenvalue."""
    head = flow.heads[0] if len(flow.heads) == 1 else None
    found = spectrum(np.asarray(head.value_matrix, float)) if isinstance(head, Head) else None
    if found is None or not found.is_leading_simple:
        raise InputError("The measure 'unaligned' needs one head with a V whose leading eigenvalue is real and simple.")
    return found


def _unaligned(tolerance: float) -> Callable[[Measured], np.ndarray]:
    """Share of the last tokens whose cosine with the leading eigenvector of V differs from +-1 by more."""

    def share(found: Measured, tokens: np.ndarray, time: float) -> float:
        axis = _leading(found.flow).right
        cosines = np.abs(tokens @ axis) / np.linalg.norm(tokens, axis=-1)
        return float(np.mean(cosines < 1 - tolerance))

    return _final(share)


MEASURES = Vocabulary(
    {
        "clusters": Word(_clusters, "DISTANCE", (DEFAULT_DISTANCE,)),
        "final-clusters": Word(
            lambda distance: _final(lambda found, x, time: int(clusters.labels(x, distance).max()) + 1),
            "DISTANCE",
            (DEFAULT_DISTANCE,),
        ),
        "scaled-clusters": Word(_scaled_clusters, "RADIUS", (0.5,)),
        "captured": Word(lambda c, radius: _captured(c, radius, False), "SEPARATION,RADIUS", (4.0, 1.0)),
        "strongly-captured": Word(lambda c, radius: _captured(c, radius, True), "SEPARATION,RADIUS", (4.0, 1.0)),
        "unaligned": Word(_unaligned, "TOLERANCE", (0.01,)),
        "vertices": Word(
            lambda merge: _final(lambda found, x, time: len(polytope.limit_vertices(x, merge))), "MERGE", (1e-4,)
        ),
        "leaders": Word(
            lambda share: _final(lambda found, x, time: len(leaders.attended(_attention(found, x, time), share))),
            "SHARE",
            (MOST_ATTENTION,),
        ),
        "rank": Word(
            lambda threshold: _final(
                lambda found, x, time: int(attention_rank.rank(_attention(found, x, time), threshold))
            ),
            "THRESHOLD",
            (attention_rank.THRESHOLD,),
        ),
        "end-time": Word(lambda: lambda found: found.runs.final_time.values.astype(float)),
        "step-count": Word(lambda: lambda found: found.runs.steps.values.astype(float)),
    }
)
"""Measures computed from the saved or last tokens."""
ALL_MEASURES = Vocabulary(OBSERVABLES.words | MEASURES.words)


def name_of(word: str) -> str:
    """The name of a word, without its numbers."""
    return word.partition(":")[0]


def is_inside(word: str) -> bool:
    """Whether a measure is computed inside the run, without saved tokens."""
    return name_of(word) in OBSERVABLES.words


def is_over_time(word: str) -> bool:
    """Whether a measure has a value at every time, as against one for each run."""
    return name_of(word) not in PER_RUN


def needs_path(word: str) -> bool:
    """Whether a measure compares the tokens with those at the start, so that a continued run does not give it."""
    return name_of(word) in OF_PATH


def needs_all_times(word: str) -> bool:
    """Whether a measure needs the tokens at all times."""
    return name_of(word) in OF_ALL_TIMES


def require_serves(word: str, flow: Any) -> None:
    """Raise InputError unless a measure is defined for a flow."""
    if name_of(word) in IN_UNITS_OF_BETA:
        _beta(flow)
    if name_of(word) in OF_PATH and not flow.is_on_sphere:
        raise InputError(f"The measure {name_of(word)!r} is an angle on the sphere. Use space = 'sphere'.")
    if name_of(word) == "unaligned":
        _leading(flow)


def measure(word: str) -> Callable[[Measured], np.ndarray]:
    """The function of a word of `MEASURES`."""
    return specs.object_of(word, "observables", MEASURES)


def require_measure(name: str, word: Any) -> None:
    """Raise InputError unless a word is a measure with the right numbers."""
    if not isinstance(word, str):
        raise InputError(f"`observables.{name}` must be a word, such as 'mean-cosine', but it is {word!r}.")
    require_known(name_of(word), ALL_MEASURES.words, f"observables.{name}")
    specs.object_of(word, f"observables.{name}", ALL_MEASURES)


@dataclass(frozen=True)
class Reduction:
    """A reduction over the runs of a cell: mean, quantiles, counts or all.

    Examples
    --------
    >>> Reduction.of("quantiles:0.1,0.5,0.9", "mean-cosine")
    Reduction(name='quantiles', levels=(0.1, 0.5, 0.9))
    """

    name: str
    levels: tuple[float, ...] = ()
    """The levels of the quantiles, increasing."""

    @classmethod
    def of(cls, word: Any, measured: str) -> "Reduction":
        """The reduction of a word; `measured` is the word of the measure that it reduces."""
        if not isinstance(word, str):
            raise InputError(f"`reduce` must be words such as 'mean', but one is {word!r}.")
        name, numbers = specs.split(word, "reduce")
        require_known(name, ("mean", "quantiles", "counts", "all"), "reduce")
        if name == "counts" and name_of(measured) not in WHOLE:
            raise InputError(
                f"`reduce` 'counts' counts runs by a whole number, but {measured!r} is a real number. Use 'quantiles', "
                f"or a measure such as {', '.join(WHOLE[:4])}."
            )
        levels = tuple(numbers or (0.1, 0.5, 0.9)) if name == "quantiles" else tuple(numbers)
        is_right = name == "quantiles" and all(0 <= one <= 1 for one in levels) and list(levels) == sorted(set(levels))
        if levels and not is_right:
            raise InputError(f"`reduce` {word!r} must have increasing levels between 0 and 1, as 'quantiles:0.1,0.9'.")
        return cls(name, levels)
