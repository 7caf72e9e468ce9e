"""Weights that are constant between switches: the piece that acts at a time, and the checks of a schedule."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attnflow._common.arrays import AnyArray, Scalar
from attnflow._common.checks import InputError


def piece_at(switches: AnyArray, pieces: Sequence[Any], time: Scalar) -> Any:
    """The piece that acts at `time`; at a switch, the later of the two."""
    index = jnp.searchsorted(jnp.asarray(switches), time, side="right")
    return jax.tree.map(lambda *leaves: jnp.stack(leaves)[index], *pieces)


def switches_between(switches: AnyArray, start: float, end: float) -> np.ndarray:
    """The switches strictly between `start` and `end`."""
    times = np.asarray(switches)
    return times[(times > start) & (times < end)]


def require_pieces(pieces: Any, kind: type, owner: str, plural: str) -> None:
    """Raise InputError unless pieces are a sequence of one type, as they are not where arguments are swapped."""
    if isinstance(pieces, Sequence) and all(isinstance(piece, kind) for piece in pieces):
        return
    found = f"`{pieces!r}`" if len(repr(pieces)) < 60 else f"of type {type(pieces).__name__}"
    raise InputError(
        f"`{plural}` must be a list of `{kind.__name__}`, but it is {found}. `{owner}(switches, {plural})` takes the "
        "times of the switches first."
    )


def require_schedule(switches: AnyArray, pieces: Sequence[Any], owner: str, plural: str) -> None:
    """Raise InputError unless switches increase and pieces, one more than these, have the same structure and shapes."""
    is_sorted = switches.ndim == 1 and np.all(np.diff(switches) > 0)
    if not is_sorted or len(pieces) != len(switches) + 1:
        raise InputError(
            f"`switches` must increase and `{plural}` must be one longer, but there are "
            f"{np.size(switches)} switches and {len(pieces)} {plural}."
        )
    shapes = {str(jax.tree.map(jnp.shape, piece)) for piece in pieces}
    if len(shapes) > 1:
        raise InputError(
            f"The {plural} of a `{owner}` must have matrices of the same shapes, "
            f"but there are {len(shapes)} different sets."
        )
