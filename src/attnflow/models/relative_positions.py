"""Scores that depend on the distance of two tokens, as T5 and MPNet add them to those of queries and keys."""

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from attnflow._common.arrays import AnyArray


class RelativePositions(eqx.Module):
    """A number for each head and each class of distances j - i: near distances one by one, far ones by logarithm.

    Examples
    --------
    Four classes: the token itself and earlier ones at distance 1 or more, then later ones at distance 1 or more.

    >>> RelativePositions(np.array([[0.0, 1.0, 2.0, 3.0]]), farthest=8)(3)[0].tolist()
    [[0.0, 3.0, 3.0], [1.0, 0.0, 3.0], [1.0, 1.0, 0.0]]
    """

    table: AnyArray  # (heads, classes)
    farthest: int = eqx.field(static=True)  # distance from which all are in one class

    def __call__(self, n: int) -> AnyArray:
        """The additional scores among n tokens, (heads, n, n)."""
        place = np.arange(n)
        return jnp.asarray(self.table)[:, self._classes(place[None, :] - place[:, None])]

    def _classes(self, distances: np.ndarray) -> np.ndarray:
        """The class of each distance: half of the classes are for later tokens, a half of each for near ones."""
        half = self.table.shape[1] // 2
        near, size = half // 2, np.abs(distances)
        with np.errstate(divide="ignore"):
            steps = np.log(size / near) / math.log(self.farthest / near) * (half - near)
        far = np.minimum(near + np.where(size < near, 0, steps).astype(int), half - 1)
        return np.where(distances > 0, half, 0) + np.where(size < near, size, far)
