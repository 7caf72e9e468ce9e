"""The residual step of trained layers: every layer taken in m steps of 1/m, x <- x + (F(x) - x) / m.

F is the block with all its parts. m = 1 is the model; m -> infinity is the flow x' = F_l(x) - x, one unit of time a
layer. If layers were steps of a flow, the tokens would change little with m, and by 1/m for large m.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from attnflow._common.arrays import AnyArray
from attnflow._common.precision import double
from attnflow._common.progress import Progress, reporting
from attnflow.models.block import Block
from attnflow.models.transformer import Model
from attnflow.trained.layer_energy import directions
from attnflow.trained.layer_geometry import centred_cosine, mean_cosine_of
from attnflow.trained.studies.variants import DRAWS, TRAINED, Variant, variants_of

CONTROLS = ("untrained", "equal attention")


def residual_steps(
    model: Model, ids: np.ndarray, steps: Sequence[int], *, seed: int = 0, progress: Progress = None
) -> xr.Dataset:
    """Tokens of prompts (prompts, n) after the last layer, for every number of steps a layer, with controls.

    Returned over (variant, steps, prompt): `mean_cosine`, `centred_cosine`, and `distance` |x_m - x_1| / |x_1| from
    the same variant with one step a layer, the model itself. Untrained weights are drawn four times, each for a quarter
    of the prompts, so that intervals include their spread.
    """
    variants = variants_of(model, CONTROLS, has_ladder=False)
    counts = sorted({1, *steps})
    found = np.empty((3, len(variants), len(counts), len(ids)))
    with reporting(progress) as report:
        for row, variant in enumerate(variants):
            of_one = _last_tokens(model, variant, ids, 1, seed)
            for column, count in enumerate(counts):
                tokens = of_one if count == 1 else _last_tokens(model, variant, ids, count, seed)
                apart = np.linalg.norm(tokens - of_one, axis=(1, 2)) / np.linalg.norm(of_one, axis=(1, 2))
                cosines = [(mean_cosine_of(directions(one)), centred_cosine(directions(one))) for one in tokens]
                found[:, row, column] = [*np.transpose(cosines), apart]
                report((row + (column + 1) / len(counts)) / len(variants), f"{variant.name}, {count} steps a layer")
    names, dims = ("mean_cosine", "centred_cosine", "distance"), ("variant", "steps", "prompt")
    coordinates = {"variant": [TRAINED, *(one.name for one in variants[1:])], "steps": counts}
    return xr.Dataset({name: (dims, values) for name, values in zip(names, found, strict=True)}, coordinates)


def _last_tokens(model: Model, variant: Variant, ids: np.ndarray, count: int, seed: int) -> np.ndarray:
    if not variant.is_untrained:
        return _of_model(model, variant, ids, count)
    draws, found = min(DRAWS, len(ids)), np.empty((*ids.shape, model.config.width))
    for draw in range(draws):
        own = model.reinitialised(np.random.SeedSequence([seed, draw]))
        found[draw::draws] = _of_model(own, variant, ids[draw::draws], count)
    return found


def _of_model(own: Model, variant: Variant, ids: np.ndarray, count: int) -> np.ndarray:
    tokens = np.stack([np.asarray(own.embed(one), own.dtype) for one in ids])
    with double():
        for layer in range(own.config.layers):
            block = variant.block(own.block(layer))
            for _ in range(count):
                tokens = np.asarray(_step(block, jnp.asarray(tokens), jnp.asarray(1 / count, own.dtype)))
    return tokens.astype(float)


@eqx.filter_jit
def _step(block: Block, batch: AnyArray, share: AnyArray) -> AnyArray:
    return batch + share * (jax.vmap(block)(batch) - batch)
