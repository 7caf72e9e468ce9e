"""`assign`: a target for every token, where targets belong to no token or are fewer than the tokens."""

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from attnflow._common.checks import InputError, require_known, require_on_sphere, require_tokens

RULES = ("stay", "nearest")


def assign(tokens: Any, targets: Any, rule: str = "stay", space: str = "sphere") -> np.ndarray:
    """A target for every token, (n, d), from m <= n targets that belong to no token.

    "stay": every target is taken by one token, so that the sum of squared distances is least, and all other tokens have
    their own places as targets. "nearest": every token has its nearest target; as distinct tokens do not meet, these
    are targets of the objective "label" of `optimise`, within a radius.

    Parameters
    ----------
    tokens, targets
        First tokens, (n, d), and targets, (m, d).
    rule
        "stay" or "nearest".
    space
        "sphere" or "euclidean".

    Examples
    --------
    >>> import attnflow as af
    >>> tokens = np.eye(3)
    >>> af.control.assign(tokens, [[0.0, 0.6, 0.8]])
    array([[1. , 0. , 0. ],
           [0. , 1. , 0. ],
           [0. , 0.6, 0.8]])
    """
    require_known(rule, RULES, "rule")
    first, last = require_tokens(tokens), np.atleast_2d(np.asarray(targets, dtype=float))
    if first.ndim != 2 or last.ndim != 2 or last.shape[1] != first.shape[1] or not np.all(np.isfinite(last)):
        raise InputError(
            f"`targets` must be finite numbers of shape (m, {first.shape[-1]}) and `tokens` of shape (n, d), but their "
            f"shapes are {last.shape} and {first.shape}."
        )
    if space == "sphere":
        require_on_sphere(first, "tokens")
        require_on_sphere(last, "targets")
    squares = ((first[:, None] - last[None]) ** 2).sum(axis=-1)
    if rule == "nearest":
        return last[squares.argmin(axis=1)]
    if len(last) > len(first):
        raise InputError(f"There are {len(last)} targets for {len(first)} tokens. Leave out targets, or add tokens.")
    wanted, (rows, columns) = first.copy(), linear_sum_assignment(squares)
    wanted[rows] = last[columns]
    return wanted
