"""Words of the command line as objects: "causal+window:8", "pair:0.5,2", "rk4:0.01".

A word is a name, then a colon and numbers where it takes any; masks combine with a plus.
"""

from pathlib import Path
from typing import Any

import numpy as np

from attnflow._common.checks import InputError, require_known
from attnflow._common.seeds import Rng
from attnflow.model import initial, masks, values
from attnflow.model.attention import AbstractAttention, Hardmax, Sinkhorn, Softmax, Unnormalised
from attnflow.model.normalisation import NGPT, AbstractNormalisation, Mix, Peri, Post, Pre, Sqrt
from attnflow.solvers.adaptive import Adaptive
from attnflow.solvers.base import AbstractSolver
from attnflow.solvers.fixed_step import RK4, Euler, Heun, StochasticHeun
from attnflow.solvers.layers import Layers

# The value matrices printed in arXiv:2305.05465.
PUBLISHED = {
    "published-2d": [[0.64709742, 0.81911926], [0.61210449, 0.63263484]],
    "published-3d-decaying": [
        [0.2362413, 0.0599536, 0.40506019],
        [0.81321448, 0.49948705, 0.33754772],
        [0.2160645, 0.38505272, 0.14588075],
    ],
    "published-3d-growing": [
        [0.18608476, 0.34391026, 0.13905949],
        [0.35244288, 0.6694859, 0.39992145],
        [0.46685606, 0.17094454, 0.42092308],
    ],
    "published-codim2": [
        [0.92761287, 0.94333073, 0.3827744],
        [0.94333073, 0.59991396, 0.47825472],
        [0.3827744, 0.47825472, 0.46668605],
    ],
}

SPECTRA = (
    "identity", "minus-identity", "perron-frobenius", "gaussian", "goe", "jordan", "pair", "diagonal",
    "eigenvalues", "eigenvalues-random", "matrix", *PUBLISHED,
)  # fmt: skip
MASKS = ("full", "causal", "strictly-causal", "others", "window", "alibi")
ATTENTIONS = ("softmax", "unnormalised", "hardmax", "sinkhorn")
NORMALISATIONS = ("post", "pre", "mix", "peri", "ngpt", "sqrt")
SOLVERS = ("tsit5", "dopri8", "kvaerno5", "euler", "heun", "rk4", "layers", "stochastic-heun")
ADAPTIVE = SOLVERS[:3]
STARTS = ("box", "ball", "gaussian", "sphere", "hemisphere", "circle", "equiangular", "angles")


def split(word: str, argument: str) -> tuple[str, list[float]]:
    """The name and the numbers of a word."""
    name, _, tail = word.partition(":")
    try:
        return name, [float(number) for number in tail.split(",")] if tail else []
    except ValueError:
        raise InputError(
            f"`{argument}` {word!r} must be a name, then a colon and numbers with commas between, such as '{name}:1' "
            f"or '{name}:0.5,2'."
        ) from None


def matrix(word: str, d: int, rng: Rng, argument: str) -> np.ndarray:
    """A d x d matrix by its spectrum, or from a .npy or .csv file."""
    if is_file(word):
        return read_numbers(word, argument)
    name, numbers = split(word, argument)
    require_known(name, SPECTRA, argument)
    if name in PUBLISHED:
        return _published(name, d, argument)
    simple = {"identity": values.identity, "minus-identity": values.minus_identity}
    random = {"perron-frobenius": values.perron_frobenius, "gaussian": values.gaussian, "goe": values.goe}
    if name in simple:
        return simple[name](d)
    if name in random:
        return random[name](d, rng)
    return _from_numbers(name, numbers, d, rng, argument)


def _published(name: str, d: int, argument: str) -> np.ndarray:
    found = np.array(PUBLISHED[name])
    if len(found) != d:
        raise InputError(
            f"`{argument}` {name!r} is a matrix of size {len(found)}, but d is {d}. "
            f"Leave d as it is, or choose another `{argument}`."
        )
    return found


def _from_numbers(name: str, numbers: list[float], d: int, rng: Rng, argument: str) -> np.ndarray:
    if name == "jordan":
        (eigenvalue,) = _take(numbers, [1.0], argument, name)
        return values.jordan_block(eigenvalue, d)
    if name == "pair":
        real, imaginary = _take(numbers, [0.5, 1.0], argument, name)
        rest = [real / 2] * (d - 2)
        return values.from_spectrum([complex(real, imaginary), complex(real, -imaginary), *rest], "standard")
    if name == "matrix":
        if len(numbers) != d * d:
            raise InputError(f"`{argument}` 'matrix' needs {d * d} numbers, row by row, but it has {len(numbers)}.")
        return np.reshape(numbers, (d, d))
    if len(numbers) != d:
        raise InputError(f"`{argument}` {name!r} needs d = {d} eigenvalues after the colon, but it has {len(numbers)}.")
    basis = {"diagonal": "standard", "eigenvalues": "orthogonal", "eigenvalues-random": "random"}[name]
    return values.from_spectrum(numbers, basis, rng)


def mask(word: str) -> masks.AbstractMask:
    """A mask, or several joined with a plus."""
    first, *others = [_mask(part) for part in word.split("+")]
    for other in others:
        first = first & other
    return first


def _mask(word: str) -> masks.AbstractMask:
    if is_file(word):
        return masks.boolean(read_numbers(word, "mask") != 0)
    name, numbers = split(word, "mask")
    require_known(name, MASKS, "mask")
    if name == "window":
        (width,) = _take(numbers, [8], "mask", name)
        return masks.window(_whole(width, "mask"))
    if name == "alibi":
        (slope,) = _take(numbers, [0.5], "mask", name)
        return masks.alibi(slope)
    _take(numbers, [], "mask", name)
    plain = {"full": masks.full, "causal": masks.causal, "others": masks.others}
    return plain.get(name, masks.strictly_causal)


def attention(word: str, beta: float) -> AbstractAttention:
    """An attention rule."""
    name, numbers = split(word, "attention")
    require_known(name, ATTENTIONS, "attention")
    if name == "softmax":
        _take(numbers, [], "attention", name)
        return Softmax(beta)
    if name == "unnormalised":
        (offset,) = _take(numbers, [0.0], "attention", name)
        return Unnormalised(beta, offset)
    if name == "sinkhorn":
        (iterations,) = _take(numbers, [5], "attention", name)
        return Sinkhorn(beta, _whole(iterations, "attention"))
    (tolerance,) = _take(numbers, [1e-9], "attention", name)
    return Hardmax(tolerance)


def normalisation(word: str) -> AbstractNormalisation:
    """A normalisation scheme."""
    name, numbers = split(word, "normalisation")
    require_known(name, NORMALISATIONS, "normalisation")
    if name == "mix":
        return Mix(*_take(numbers, [1.0], "normalisation", name))
    if name == "ngpt":
        return NGPT(*_take(numbers, [0.2], "normalisation", name))
    _take(numbers, [], "normalisation", name)
    return {"post": Post, "pre": Pre, "peri": Peri, "sqrt": Sqrt}[name]()


def solver(word: str, rtol: float, atol: float) -> AbstractSolver:
    """A solver; adaptive ones use the tolerances, the others a step."""
    name, numbers = split(word, "solver")
    require_known(name, SOLVERS, "solver")
    if name in ADAPTIVE:
        _take(numbers, [], "solver", name)
        return Adaptive(rtol, atol, order=8 if name == "dopri8" else 5, stiff=name == "kvaerno5")
    if name == "layers":
        return Layers(*_take(numbers, [0.1, 1.0], "solver", name))
    fixed: dict[str, Any] = {"euler": Euler, "heun": Heun, "rk4": RK4, "stochastic-heun": StochasticHeun}
    return fixed[name](*_take(numbers, [0.01], "solver", name))


def start(word: str, n: int, d: int, runs: int | None, rng: Rng) -> np.ndarray:
    """Initial tokens by their law, or from a .npy or .csv file."""
    if is_file(word):
        return read_numbers(word, "start")
    name, numbers = split(word, "start")
    require_known(name, STARTS, "start")
    many: dict[str, Any] = {"rng": rng, "runs": runs}
    if name == "box":
        return initial.box(n, d, *_take(numbers, [-5.0, 5.0], "start", name), **many)
    if name == "angles":
        if not numbers:
            raise InputError(
                "`start` 'angles' needs an angle for every token after the colon, such as 'angles:0,0.5,2'."
            )
        return initial.on_circle(np.array(numbers), d)
    if name == "equiangular":
        tokens = initial.equiangular(n, d, *_take(numbers, [0.0], "start", name))
        return tokens if runs is None else np.repeat(tokens[None], runs, axis=0)
    if name in ("ball", "gaussian"):
        law = {"ball": initial.ball, "gaussian": initial.gaussian}[name]
        return law(n, d, *_take(numbers, [1.0], "start", name), **many)
    _take(numbers, [], "start", name)
    return {"sphere": initial.sphere, "hemisphere": initial.hemisphere, "circle": initial.circle}[name](n, d, **many)


def is_file(word: str) -> bool:
    """Whether a word names a file of numbers."""
    return Path(word).suffix in (".npy", ".csv", ".txt")


def read_numbers(path: str, argument: str) -> np.ndarray:
    """The array in a .npy file, or the table in a .csv or .txt file. Pickles are refused."""
    try:
        if Path(path).suffix == ".npy":
            return np.load(path, allow_pickle=False)
        return np.loadtxt(path, delimiter="," if Path(path).suffix == ".csv" else None, ndmin=2)
    except (OSError, ValueError) as error:
        raise InputError(f"`{argument}` names the file {path}, which cannot be read as numbers: {error}.") from error


def _whole(number: float, argument: str) -> int:
    if not float(number).is_integer():  # infinities and NaN are none
        raise InputError(f"`{argument}` takes a whole number after the colon, but it is {number:g}.")
    return int(number)


def _take(numbers: list[float], defaults: list[float], argument: str, name: str) -> list[float]:
    """The numbers given, with defaults for those left out."""
    if len(numbers) > len(defaults):
        raise InputError(
            f"`{argument}` {name!r} takes at most {len(defaults)} numbers after the colon, but it has {len(numbers)}."
        )
    return [*numbers, *defaults[len(numbers) :]]
