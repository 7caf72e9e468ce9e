"""Discrete layers, as in a network."""

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from attnflow._common.arrays import AnyArray
from attnflow._common.checks import InputError, require_finite_number, require_positive_number
from attnflow._common.precision import parameter
from attnflow.model.flows import RescaledAttention
from attnflow.solvers.fixed_step import AbstractFixedStep


class Layers(AbstractFixedStep):
    """Discrete layers, as in a network: x <- residual * x + step * (attention output).

    On the sphere each layer ends with a projection, which is layer normalisation, and the attention output is not
    projected to the tangent space before. ``residual=0, step=1`` has no skip connection; ``residual=1-h`` with hardmax
    is the Frank-Wolfe scheme. The time after k layers is k * step.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.EuclideanAttention(af.Head.identity(1))
    >>> run = af.simulate(flow, [[1.0]], [0.0, 1.0], solver=af.Layers(step=0.5), progress=False)
    >>> run.final_tokens.item()  # two layers, each of which adds half of the token
    2.25
    """

    step: AnyArray = eqx.field(converter=parameter)
    residual: AnyArray = eqx.field(default=1.0, converter=parameter)

    def __check_init__(self):
        require_positive_number(self.step, "step")
        require_finite_number(self.residual, "residual")

    def move(self, flow, time, state, length, latest, rng_key):
        """The state after one layer, whose length is always `step`."""
        del length, latest, rng_key
        return flow.layer(self._layer_time(time), state, self.step, self.residual)

    def lengths_ahead(self, flow, cursor, target):
        """The lengths after one layer, which are finite also where its directions are not."""
        del target
        return flow.layer(self._layer_time(cursor.time), cursor.state, self.step, self.residual).radii

    def _layer_time(self, time: Any) -> AnyArray:
        """The multiple of the step that equals `time` up to rounding, increased by a few bits.

        Weights that change at a layer then change there, whatever the rounding errors of the times.
        """
        layer = jnp.round(time / self.step)
        is_layer = jnp.abs(time / self.step - layer) < 1e-6
        return jnp.where(is_layer, layer * self.step, time) * (1 + 8 * jnp.finfo(time.dtype).eps)

    def require_serves(self, flow, times):
        """Raise ValueError unless the times are whole numbers of layers and the flow has discrete layers."""
        super().require_serves(flow, times)
        step = float(self.step)
        layers = (times - times[0]) / step
        off = np.abs(layers - np.round(layers)) > 1e-6
        if np.any(off):
            worst = int(np.argmax(off))
            raise InputError(
                f"With `Layers` every time must be a whole number of steps of {step:g} after the first, "
                f"but time {times[worst]:g} at position {worst} is layer {layers[worst]:.6g}. "
                f"Use times[0] + {step:g} * numpy.arange(...)."
            )
        if isinstance(flow, RescaledAttention):
            self._require_serves_rescaled(flow, times)

    def _require_serves_rescaled(self, flow, times):
        frame = float(self.residual) * np.eye(flow.dimension)
        frame = frame + float(self.step) * np.asarray(flow.rescaling_matrix)
        reason = None
        if flow.mlp is not None:
            reason = "an MLP does not commute with the rescaling"
        elif np.linalg.cond(frame) > 1e12:
            reason = "residual * I + step * V is singular"
        elif not math.isclose(times[0], 0.0, abs_tol=1e-12):
            reason = "layers are counted from time 0"
        if reason:
            raise InputError(
                f"`Layers` cannot solve this `RescaledAttention`: {reason}. Use `EuclideanAttention` instead."
            )
