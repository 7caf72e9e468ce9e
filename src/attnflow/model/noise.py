"""Diffusion of the tokens on their space."""

import equinox as eqx
import jax.numpy as jnp

from attnflow._common.arrays import AnyArray
from attnflow._common.checks import require_positive_number
from attnflow._common.module import Module
from attnflow._common.precision import parameter


class Noise(Module):
    """Adds sqrt(2 / kappa) dW to every token: the generator gains kappa^{-1} times the Laplacian.

    On the sphere the noise is tangent and in the sense of Stratonovich, which makes it Brownian motion on the sphere.
    With `common` all tokens have the same dW.

    Examples
    --------
    >>> import numpy as np
    >>> import attnflow as af
    >>> flow = af.EuclideanAttention(af.Head(value=np.zeros((2, 2))), noise=af.Noise(kappa=2.0, common=True))
    >>> run = af.simulate(flow, np.eye(2), [0.0, 1.0], solver=af.StochasticHeun(step=0.1), rng=0, progress=False)
    >>> np.ptp(run.final_tokens.values - np.eye(2), axis=0).round(12)  # all tokens move alike
    array([0., 0.])
    >>> float(flow.noise.strength())
    1.0
    """

    kappa: AnyArray = eqx.field(converter=parameter)
    common: bool = eqx.field(default=False, static=True)

    def __check_init__(self):
        require_positive_number(self.kappa, "kappa", "Leave `noise` out for none.")

    def strength(self) -> AnyArray:
        """sqrt(2 / kappa)."""
        return jnp.sqrt(2 / self.kappa)
