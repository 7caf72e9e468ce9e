"""`obstructions`: arguments that no weights of a family take given tokens to given targets."""

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy.optimize import nnls

from attnflow._common.checks import InputError, require_on_sphere, require_tokens
from attnflow.control.families import FlowFamily
from attnflow.model.masks import Causal

CONE_TOLERANCE = (
    1e-9  # distance of a unit target from the cone of the tokens: rounding errors of a solver of n unknowns
)


@dataclass(frozen=True)
class Obstruction:
    """A reason that a request is impossible, with the indices of the tokens (rows, from 0) that it concerns.

    Examples
    --------
    >>> import attnflow as af
    >>> found = af.control.obstructions(af.control.FlowFamily(), np.eye(3)[[0, 0]], np.eye(3)[:2])
    >>> found[0].kind, found[0].tokens
    ('equal tokens', (0, 1))
    """

    kind: str
    """The argument that applies, in two or three words."""
    tokens: tuple[int, ...]
    says: str
    """What is impossible and why, as a sentence."""

    def __str__(self) -> str:
        return f"impossible: {self.says}"


def obstructions(family: FlowFamily, tokens: Any, targets: Any) -> tuple[Obstruction, ...]:
    """The reasons known why no control of a family takes `tokens` to `targets` in finite time; empty if there is none.

    1. One velocity field moves all tokens (full attention, or none): equal tokens stay equal, and distinct tokens stay
       distinct, since solutions of an ordinary differential equation with a Lipschitz field are unique.
    2. On the line and on the circle such a field keeps the order of tokens: two tokens would have to meet to change it.
    3. Under a causal mask the first k tokens do not depend on the others: prompts that share them share their motion.
    4. V = I without perceptron: the velocity of a token lies in the cone of all tokens, which is therefore invariant.

    With a perceptron, full attention and d >= 3 on the sphere, or d >= 2 in R^d, nothing but 1 is in the way
    (`steer` constructs a control).

    Parameters
    ----------
    family
        The flows among which a control is looked for.
    tokens, targets
        First and last tokens, (n, d), or (prompts, n, d) for several prompts under one control.

    Examples
    --------
    >>> import attnflow as af
    >>> tokens = af.initial.on_circle(np.array([0.0, 1.0, 2.0, 3.0]))
    >>> targets = tokens[[0, 2, 1, 3]]
    >>> print(af.control.obstructions(af.control.FlowFamily(), tokens, targets)[0])
    impossible: order of tokens 1 and 2, which one velocity field on the circle does not change
    >>> af.control.obstructions(af.control.FlowFamily(mask=af.masks.causal), tokens, targets)
    ()
    """
    first, last = require_pair(family.space, tokens, targets)
    prompts = [(first, last)] if first.ndim == 2 else list(zip(first, last, strict=True))
    found = [one for pair in prompts for one in _of_prompt(family, *pair)]
    return (*found, *_of_prefixes(family, prompts))


def require_pair(space: str, tokens: Any, targets: Any) -> tuple[np.ndarray, np.ndarray]:
    """Tokens and targets as arrays of one shape in the space; InputError otherwise."""
    first, last = require_tokens(tokens), np.asarray(targets, dtype=float)
    if first.shape != last.shape:
        raise InputError(
            f"`targets` must have the shape {first.shape} of the tokens, but it is {last.shape}. `assign` makes "
            "targets for all tokens by a rule."
        )
    if not np.all(np.isfinite(last)):
        raise InputError("`targets` must be finite numbers.")
    if space == "sphere":
        require_on_sphere(first, "tokens")
        require_on_sphere(last, "targets")
    return first, last


def require_possible(family: FlowFamily, tokens: Any, targets: Any) -> None:
    """Raise InputError with the first obstruction, if there is one."""
    for one in obstructions(family, tokens, targets)[:1]:
        raise InputError(f"{str(one).capitalize()}.")


def _of_prompt(family: FlowFamily, tokens: np.ndarray, targets: np.ndarray) -> list[Obstruction]:
    found: list[Obstruction | None] = []
    if family.has_one_field:
        found += [_of_equal_tokens(tokens, targets), _of_order(family, tokens, targets)]
    if family.value == "identity" and not family.perceptron and family.attention:
        found.append(_of_cone(tokens, targets))
    return [one for one in found if one is not None]


def _of_equal_tokens(tokens: np.ndarray, targets: np.ndarray) -> Obstruction | None:
    """A pair of equal tokens with distinct targets, or of distinct tokens with equal targets."""
    are_equal = (tokens[:, None] == tokens[None]).all(axis=-1)
    meet = (targets[:, None] == targets[None]).all(axis=-1)
    wrong = np.argwhere(np.triu(are_equal != meet, 1))
    if len(wrong) == 0:
        return None
    i, j = map(int, wrong[0])
    if are_equal[i, j]:
        return Obstruction(
            "equal tokens", (i, j), f"tokens {i} and {j} are equal and stay equal under one velocity field"
        )
    return Obstruction(
        "merging", (i, j), f"tokens {i} and {j} are distinct and meet in no finite time under one velocity field"
    )


def _of_order(family: FlowFamily, tokens: np.ndarray, targets: np.ndarray) -> Obstruction | None:
    """A pair of tokens on the line or on the circle whose order would change."""
    on_line, on_circle = family.space == "euclidean" and tokens.shape[1] == 1, family.space == "sphere"
    if not on_line and not (on_circle and tokens.shape[1] == 2):
        return None
    if on_line:
        before, after = tokens[:, 0], targets[:, 0]
    else:
        before, after = (np.arctan2(points[:, 1], points[:, 0]) for points in (tokens, targets))
    order = np.argsort(before, kind="stable")
    pair = _disordered(order, after, is_cyclic=on_circle)
    if pair is None:
        return None
    i, j = sorted(pair)
    where = "circle" if on_circle else "line"
    return Obstruction(
        "order", (i, j), f"order of tokens {i} and {j}, which one velocity field on the {where} does not change"
    )


def _disordered(order: np.ndarray, after: np.ndarray, is_cyclic: bool) -> tuple[int, int] | None:
    """Two tokens whose targets, exchanged, would restore the order; otherwise the first two that are out of order."""
    allowed = 1 if is_cyclic else 0
    if _descents(after[order], is_cyclic) <= allowed:
        return None
    for i, j in combinations(range(len(order)), 2):
        changed = after[order].copy()
        changed[[i, j]] = changed[[j, i]]
        if _descents(changed, is_cyclic) <= allowed:
            return int(order[i]), int(order[j])
    place = int(np.argmax(np.diff(after[order]) < 0))
    return int(order[place]), int(order[place + 1])


def _descents(values: np.ndarray, is_cyclic: bool) -> int:
    return int(np.sum(np.diff(np.append(values, values[0]) if is_cyclic else values) < 0))


def _of_cone(tokens: np.ndarray, targets: np.ndarray) -> Obstruction | None:
    """The token whose target is farthest outside of the convex cone of all tokens."""
    distances = [nnls(tokens.T, target)[1] for target in targets]
    worst = int(np.argmax(distances))
    if distances[worst] <= CONE_TOLERANCE * max(1.0, float(np.linalg.norm(targets[worst]))):
        return None
    outside = f"at the distance {distances[worst]:.3g} from the cone of the tokens, which V = I keeps"
    return Obstruction("cone", (worst,), f"the target of token {worst} is {outside}")


def _of_prefixes(family: FlowFamily, prompts: list[tuple[np.ndarray, np.ndarray]]) -> list[Obstruction]:
    """Tokens that two prompts share with all that they can see, and that have different targets in them."""
    found = []
    is_causal = family.attention and isinstance(family.mask, Causal)
    for (a, (first, one)), (b, (second, two)) in combinations(enumerate(prompts), 2):
        same = (first == second).all(axis=1)
        shared = same & np.logical_and.accumulate(same) if is_causal else same & same.all()
        wrong = np.flatnonzero(shared & ~(one == two).all(axis=1))
        if len(wrong):
            seen = "all tokens up to it" if is_causal else "all tokens"
            says = f"token {wrong[0]} has two targets in prompts {a} and {b}, which share {seen}"
            found.append(Obstruction("prefix", (int(wrong[0]),), says))
    return found
