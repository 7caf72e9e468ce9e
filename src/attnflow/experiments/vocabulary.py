"""The known words of each setting: the numbers that each word takes, and the object that it stands for.

A word is a name, then a colon and numbers where it takes any: "causal", "window:8", "rk4:0.01". Help texts, checks and
the explorer's page read the table below, as does the way back from objects to words. `af` loads a class on first use.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import attnflow as af

NAMED = ".npz:"  # begins the name of an array in a file that holds several: "runs.npz:tokens"


@dataclass(frozen=True)
class Word:
    """One known word of a setting."""

    make: Callable[..., Any]
    """Called with the numbers after the colon, then with the arguments that all words of the setting get."""
    numbers: str = ""
    """Names of the numbers in help texts, such as "LOW,HIGH"."""
    defaults: tuple[float, ...] = ()
    """The numbers that are left out; an integer stands where only whole numbers are allowed."""
    count: str = ""
    """How many numbers must be given where there are no defaults: "d", "d^2", or "any" for at least one."""
    size: int | None = None
    """The only d that is possible, of a matrix whose entries are fixed."""
    fields: tuple[str, ...] = ()
    """Attributes of the object that are the numbers after the colon."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Attributes that distinguish the object from those of other words that have the same class."""
    phrase: str = ""
    """The object in a sentence, such as "softmax attention"."""

    def stands_for(self, part: Any, given: Mapping[str, Any]) -> bool:
        """Whether the word, made with the arguments `given`, has the class and the fixed attributes of an object."""
        sample = self.make(*self.defaults, **given)
        is_alike = sample is part if isinstance(sample, FunctionType) else type(sample) is type(part)
        return is_alike and all(getattr(part, name) == value for name, value in self.fixed.items())


@dataclass(frozen=True)
class Vocabulary:
    """All words of a setting, by name."""

    words: dict[str, Word]
    reads_files: bool = False
    """Whether the setting may instead be the path of a .npy, .npz, .csv or .txt file."""
    is_joined: bool = False
    """Whether several words may be joined with a plus."""
    given: dict[str, Any] = field(default_factory=dict)
    """Arguments that all words of the setting get, with values for samples of their objects."""

    def name_of(self, part: Any, **given: Any) -> str | None:
        """The name of the word that stands for an object, or None; `given` goes to all words of the setting.

        Examples
        --------
        >>> MASKS.name_of(af.masks.window(8)), NORMALISATIONS.name_of(af.masks.full)
        ('window', None)
        """
        return next((name for name, word in self.words.items() if word.stands_for(part, self.given | given)), None)

    def numbers_of(self, part: Any, **given: Any) -> list[int | float]:
        """The numbers after the colon of the word of an object; empty for an object without a word."""
        name = self.name_of(part, **given)
        found = () if name is None else (getattr(part, one) for one in self.words[name].fields)
        return [number if isinstance(number, int) else float(number) for number in found]

    def phrase_of(self, part: Any) -> str:
        """An object in a sentence; the name of its class if it has no word."""
        name = self.name_of(part)
        return type(part).__name__ if name is None else self.words[name].phrase

    def usage(self) -> str:
        """All words with the names of their numbers, for help texts.

        Examples
        --------
        >>> NORMALISATIONS.usage()
        'post, pre, mix:TIME, peri, ngpt:ALPHA, sqrt'
        """
        words = [f"{name}:{word.numbers}" if word.numbers else name for name, word in self.words.items()]
        files = ["or a .npy, .npz or .csv file"] if self.reads_files else []
        return ", ".join(words + files) + ("; joined with +" if self.is_joined else "")


def _pair(real: float, imaginary: float, d: int, rng: Any) -> Any:
    rest = [real / 2] * (d - 2)
    return af.values.from_spectrum([complex(real, imaginary), complex(real, -imaginary), *rest], "standard")


def _with_spectrum(basis: str) -> Word:
    make = lambda *eigenvalues, d, rng: af.values.from_spectrum(list(eigenvalues), basis, rng)
    return Word(make, "FIRST,SECOND,...", count="d")


def _of_rows(*entries: float, d: int, rng: Any) -> Any:
    import numpy as np

    return np.reshape(entries, (d, d))


def _published(*rows: list[float]) -> Word:
    entries = [entry for row in rows for entry in row]
    return Word(lambda d, rng: _of_rows(*entries, d=d, rng=rng), size=len(rows))


MATRICES = Vocabulary(
    {
        "identity": Word(lambda d, rng: af.values.identity(d)),
        "minus-identity": Word(lambda d, rng: af.values.minus_identity(d)),
        "perron-frobenius": Word(lambda d, rng: af.values.perron_frobenius(d, rng)),
        "gaussian": Word(lambda d, rng: af.values.gaussian(d, rng)),
        "goe": Word(lambda d, rng: af.values.goe(d, rng)),
        "jordan": Word(lambda eigenvalue, d, rng: af.values.jordan_block(eigenvalue, d), "EIGENVALUE", (1.0,)),
        "pair": Word(_pair, "REAL,IMAGINARY", (0.5, 1.0)),
        "diagonal": _with_spectrum("standard"),
        "eigenvalues": _with_spectrum("orthogonal"),
        "eigenvalues-random": _with_spectrum("random"),
        "matrix": Word(_of_rows, "ROW,BY,ROW,...", count="d^2"),
        # The value matrices printed in arXiv:2305.05465.
        "published-2d": _published([0.64709742, 0.81911926], [0.61210449, 0.63263484]),
        "published-3d-decaying": _published(
            [0.2362413, 0.0599536, 0.40506019],
            [0.81321448, 0.49948705, 0.33754772],
            [0.2160645, 0.38505272, 0.14588075],
        ),
        "published-3d-growing": _published(
            [0.18608476, 0.34391026, 0.13905949],
            [0.35244288, 0.6694859, 0.39992145],
            [0.46685606, 0.17094454, 0.42092308],
        ),
        "published-codim2": _published(
            [0.92761287, 0.94333073, 0.3827744],
            [0.94333073, 0.59991396, 0.47825472],
            [0.3827744, 0.47825472, 0.46668605],
        ),
    },
    reads_files=True,
)
"""Words of V and of Q^T K; each is made with `d` and `rng`."""

MASKS = Vocabulary(
    {
        "full": Word(lambda: af.masks.full),
        "causal": Word(lambda: af.masks.causal, fixed={"strict": False}),
        "strictly-causal": Word(lambda: af.masks.strictly_causal, fixed={"strict": True}),
        "others": Word(lambda: af.masks.others),
        "window": Word(lambda width: af.masks.window(width), "WIDTH", (8,), fields=("width",)),
        "alibi": Word(lambda slope: af.masks.alibi(slope), "SLOPE", (0.5,), fields=("slope",)),
    },
    reads_files=True,
    is_joined=True,
)
ATTENTIONS = Vocabulary(
    {
        "softmax": Word(lambda beta: af.Softmax(beta), phrase="softmax attention"),
        "unnormalised": Word(
            lambda offset, beta: af.Unnormalised(beta, offset),
            "OFFSET",
            (0.0,),
            fields=("offset",),
            phrase="unnormalised attention",
        ),
        "hardmax": Word(
            lambda tolerance, beta: af.Hardmax(tolerance),
            "TOLERANCE",
            (1e-9,),
            fields=("tolerance",),
            phrase="hardmax attention",
        ),
        "sinkhorn": Word(
            lambda iterations, beta: af.Sinkhorn(beta, iterations),
            "ITERATIONS",
            (5,),
            fields=("iterations",),
            phrase="Sinkhorn attention",
        ),
    },
    given={"beta": 1.0},
)
NORMALISATIONS = Vocabulary(
    {
        "post": Word(lambda: af.Post(), phrase="Post-LN"),
        "pre": Word(lambda: af.Pre(), phrase="Pre-LN"),
        "mix": Word(lambda time: af.Mix(time), "TIME", (1.0,), fields=("switch",), phrase="Mix-LN"),
        "peri": Word(lambda: af.Peri(), phrase="Peri-LN"),
        "ngpt": Word(lambda alpha: af.NGPT(alpha), "ALPHA", (0.2,), fields=("alpha",), phrase="nGPT"),
        "sqrt": Word(lambda: af.Sqrt(), phrase="LayerNorm scaling"),
    }
)


def _with_step(make: Callable[[float], Any], **fixed: Any) -> Word:
    return Word(lambda step, rtol, atol: make(step), "STEP", (0.01,), fields=("step",), fixed=fixed)


SOLVERS = Vocabulary(
    {
        "tsit5": Word(lambda rtol, atol: af.Adaptive(rtol, atol), fixed={"order": 5, "stiff": False}),
        "dopri8": Word(lambda rtol, atol: af.Adaptive(rtol, atol, order=8), fixed={"order": 8, "stiff": False}),
        "kvaerno5": Word(lambda rtol, atol: af.Adaptive(rtol, atol, stiff=True), fixed={"stiff": True}),
        "euler": _with_step(lambda step: af.Euler(step)),
        "heun": _with_step(lambda step: af.Heun(step)),
        "rk4": _with_step(lambda step: af.RK4(step)),
        "layers": Word(
            lambda step, residual, rtol, atol: af.Layers(step, residual),
            "STEP,RESIDUAL",
            (0.1, 1.0),
            fields=("step", "residual"),
        ),
        "stochastic-heun": _with_step(lambda step: af.StochasticHeun(step), geodesic=True),
        "straight-stochastic-heun": _with_step(lambda step: af.StochasticHeun(step, geodesic=False), geodesic=False),
    },
    given={"rtol": 1e-8, "atol": 1e-10},
)
ADAPTIVE_SOLVERS = tuple(name for name, word in SOLVERS.words.items() if not word.defaults)  # the others take a step


def _equiangular(cosine: float, n: int, d: int, runs: int | range | None, rng: Any) -> Any:
    import numpy as np

    tokens = af.initial.equiangular(n, d, cosine)
    return tokens if runs is None else np.repeat(tokens[None], len(runs) if isinstance(runs, range) else runs, axis=0)


def _on_circle(*angles: float, n: int, d: int, runs: int | range | None, rng: Any) -> Any:
    import numpy as np

    return af.initial.on_circle(np.array(angles), d)


STARTS = Vocabulary(
    {
        "box": Word(lambda low, high, n, d, **draw: af.initial.box(n, d, low, high, **draw), "LOW,HIGH", (-5.0, 5.0)),
        "ball": Word(lambda radius, n, d, **draw: af.initial.ball(n, d, radius, **draw), "RADIUS", (1.0,)),
        "gaussian": Word(
            lambda deviation, n, d, **draw: af.initial.gaussian(n, d, deviation, **draw), "DEVIATION", (1.0,)
        ),
        "sphere": Word(lambda n, d, **draw: af.initial.sphere(n, d, **draw)),
        "hemisphere": Word(lambda n, d, **draw: af.initial.hemisphere(n, d, **draw)),
        "circle": Word(lambda n, d, **draw: af.initial.circle(n, d, **draw)),
        "equiangular": Word(_equiangular, "COSINE", (0.0,)),
        "angles": Word(_on_circle, "FIRST,SECOND,...", count="any"),
    },
    reads_files=True,
)
"""Laws of the first tokens; each is made with `n`, `d`, `runs` and `rng`."""

SPACES = Vocabulary(
    {
        "euclidean": Word(lambda **parts: af.EuclideanAttention(**parts)),
        "rescaled": Word(lambda **parts: af.RescaledAttention(**parts)),
        "sphere": Word(lambda **parts: af.SphereAttention(**parts)),
    }
)
OBSERVABLES = Vocabulary(
    {
        "energy": Word(lambda beta: af.observables.Energy(beta), "BETA", (1.0,), fields=("beta",)),
        "close-pairs": Word(lambda cosine: af.observables.ClosePairs(cosine), "COSINE", (0.999,), fields=("cosine",)),
        "mean-cosine": Word(lambda: af.observables.mean_cosine),
        "order-parameter": Word(lambda: af.observables.order_parameter),
        "diameter": Word(lambda: af.observables.diameter),
        "largest-norm": Word(lambda: af.observables.largest_norm),
    }
)
"""Quantities that a run can save at every time."""

SETTINGS = {
    "space": SPACES,
    "attention": ATTENTIONS,
    "mask": MASKS,
    "value": MATRICES,
    "query_key": MATRICES,
    "normalisation": NORMALISATIONS,
    "start": STARTS,
    "solver": SOLVERS,
}
"""The vocabulary of every setting that is a word."""


def known_words(setting: str) -> tuple[str, ...]:
    """Names of the known words of a setting."""
    return tuple(SETTINGS[setting].words)


def is_file(word: str) -> bool:
    """Whether a word names a file of numbers.

    Examples
    --------
    >>> is_file("tokens.npy"), is_file("runs.npz:tokens"), is_file("box:-5,5")
    (True, True, False)
    """
    return NAMED in word.lower() or word.lower().endswith((".npy", ".npz", ".csv", ".txt"))


def lists_tokens(word: str) -> bool:
    """Whether a word of `start` lists every token, so that it sets their number."""
    known = STARTS.words.get(word.partition(":")[0])
    return is_file(word) or (known is not None and known.count == "any")
