"""An ablation ladder on a prompt: from attention alone to the true block, one part at a time.

Each rung has the parts of the one before it and one more. The last one is the model itself and agrees with
`model.trajectory` up to rounding. Compared, the rungs show which part keeps tokens apart, where one does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import xarray as xr

from attnflow._common.arrays import AnyArray
from attnflow._common.checks import InputError, require_count, require_known, require_positive_number
from attnflow._common.plain import json_value
from attnflow._common.precision import double
from attnflow._common.progress import Progress, Report, reporting
from attnflow.model import masks
from attnflow.model.masks import AbstractMask
from attnflow.models.block import Block
from attnflow.models.tokenizer import Prompt
from attnflow.models.transformer import Model
from attnflow.trained import measures

MASKS = {"full": masks.full, "causal": masks.causal}


@dataclass(frozen=True)
class Rung:
    """A name, and the function that reduces a block of the model to the parts of this rung."""

    name: str
    block: Callable[[Block], Block]
    has_positions: bool = False
    """Whether learned positions are added to the embedding."""


def ladder(
    model: Model,
    prompt: Prompt,
    layers: int | None = None,
    *,
    head: int = 0,
    mask: str = "full",
    angle: float = measures.ANGLE,
    progress: Progress = None,
) -> xr.Dataset:
    """Send a prompt through the model with the parts of its block switched on one by one.

    In a model with a norm before attention (GPT-2, Llama) the heads of the first rungs include the gain and centring
    of that norm, as in `model.heads`, and its shift is one of the biases; the rung of the norm adds the division by
    the root mean square.

    Parameters
    ----------
    model, prompt, layers
        As in `model.trajectory`.
    head
        The head of every layer that the first rungs use.
    mask
        "full" or "causal": the mask of the rungs. If the model has the other one, it is added in the last rung.
    angle
        Directions closer than this, in radians, are one cluster.
    progress
        As in `simulate`.

    Returns
    -------
    A dataset with `tokens` over (rung, time, token, coordinate), `mean_cosine`, `clusters` and `effective_rank` of the
    tokens' directions and `is_whole` (nothing has overflowed) over (rung, time), and `attention_rank` and
    `second_eigenvalue`, means over heads, over (rung, layer). ``attrs["distance_to_model"]`` is the largest difference
    between the last rung and the model's own trajectory, relative to its largest number. A rung that overflows
    is NaN from there on.

    Examples
    --------
    >>> import attnflow as af
    >>> steps = af.trained.ladder(model, [5, 17, 3, 5], layers=1, progress=False)
    >>> steps.rung.values[0], steps.attrs["distance_to_model"] < 1e-6
    ('attention only', True)
    """
    require_ladder_arguments(model, head, mask, angle)
    truth = model.trajectory(prompt, layers, progress=False)
    rungs, depth, runs = rungs_of(model, head, MASKS[mask]), truth.sizes["time"] - 1, []
    with reporting(progress) as report:
        for place, rung in enumerate(rungs):
            runs.append(_run_rung(model, prompt, depth, rung, angle, _layer_report(report, rungs, place, depth)))
    joined = xr.concat(runs, "rung").assign_coords(rung=np.array([rung.name for rung in rungs], dtype=object))
    joined = joined.assign_coords(word=truth.word, id=truth.id, time=truth.time)
    scale = float(np.abs(truth.tokens).max())
    gap = float(np.abs(joined.tokens.values[-1] - truth.tokens.values).max()) / scale
    kept = {name: truth.attrs[name] for name in ("model", "origin", "config", "dtype")}
    return joined.assign_attrs(kept, distance_to_model=gap, head=head, mask=mask, angle=angle)


def require_ladder_arguments(model: Model, head: int, mask: str, angle: float) -> None:
    """Check the arguments of `ladder` besides the prompt and its layers."""
    require_known(mask, MASKS, "mask")
    require_count(head, "head", least=0)
    require_positive_number(angle, "angle")
    if head >= model.config.heads:
        raise InputError(f"`head` must be from 0 to {model.config.heads - 1} in {model.name}, but it is {head}.")


def ladder_rows(climbed: xr.Dataset) -> list[dict[str, Any]]:
    """One row a rung: first and last mean cosine, last clusters and ranks, and layers before an overflow.

    A rung that overflows has no last values, since they would be of another layer than those of the other rungs.
    `common_cosine` is the mean cosine after `common_layer`, the last layer that all rungs reach.

    Parameters
    ----------
    climbed
        A dataset made by `ladder`.

    Examples
    --------
    >>> import attnflow as af
    >>> steps = af.trained.ladder(model, [5, 17, 3, 5], layers=1, progress=False)
    >>> [row["rung"] for row in af.trained.ladder_rows(steps)][:2]
    ['attention only', '+ biases']
    """
    rows, common = [], max(int(climbed.is_whole.sum("time").min()) - 1, 0)
    for rung in climbed.rung.values:
        one = climbed.sel(rung=rung)
        whole = int(one.is_whole.sum())
        is_whole = whole == climbed.sizes["time"]
        last = one.isel(time=-1)
        rows.append(
            {
                "rung": str(rung),
                "first_cosine": json_value(float(one.mean_cosine[0])),
                "last_cosine": json_value(float(last.mean_cosine)),
                "clusters": int(last.clusters) if is_whole else None,
                "effective_rank": json_value(float(last.effective_rank)),
                "attention_rank": _last_finite(one.attention_rank.values) if is_whole else None,
                "common_layer": common,
                "common_cosine": json_value(float(one.mean_cosine[common])),
                "layers_before_overflow": None if is_whole else whole - 1,
            }
        )
    return rows


def rungs_of(model: Model, head: int = 0, mask: AbstractMask = masks.full) -> list[Rung]:
    """The rungs of this model: parts that it does not have are left out."""
    config, attention = model.config, model.block(0).attention
    has_biases = any(bias is not None for bias in (attention.b_q, attention.b_k, attention.b_v, attention.b_o))
    has_windows = any(width is not None for width in config.windows)
    is_other = has_windows or config.is_causal != (mask is masks.causal)
    own_mask = f"{'causal' if config.is_causal else 'full'} mask{' and windows' if has_windows else ''}"
    norm = "LayerNorm" if config.norm == "layer" else "RMSNorm"
    kinds = {"rotary positions": attention.rotary, "relative positions": attention.relative}
    positions = next((name for name, part in kinds.items() if part is not None), "positions")
    bare = ("biases", "norms", "mlp", "rotary")

    def only(*parts: str, heads: tuple[int, ...] | None = None) -> Callable[[Block], Block]:
        def cut(block: Block) -> Block:
            # Without the division by the root mean square, the gain of a norm before the heads is still part of them.
            whole = block.with_folded_norm() if "norms" in parts else block
            return whole.without(*parts).with_mask(mask)

        return cut if heads is None else lambda block: cut(block).with_heads(heads)

    return [
        Rung("attention only", only(*bare, heads=(head,))),
        *([Rung("+ biases", only(*bare[1:], heads=(head,)))] if has_biases else []),
        *([Rung("+ all heads", only(*bare[1:]))] if config.heads > 1 else []),
        Rung(f"+ {norm}", only(*bare[2:])),
        Rung("+ MLP", only(*bare[3:])),
        Rung(f"+ {positions}", only(), has_positions=True),
        *([Rung(f"+ {own_mask}", lambda block: block, True)] if is_other else []),
    ]


def _run_rung(
    model: Model, prompt: Prompt, layers: int, rung: Rung, angle: float, report: Callable[[int], None]
) -> xr.Dataset:
    """The prompt through the layers of one rung, with its measurements."""
    with double():
        tokens = jnp.asarray(model.embed(prompt, positions=rung.has_positions), model.dtype)
        stream, weights = [np.asarray(tokens)], []
        for layer in range(layers):
            tokens, attention = _step(rung.block(model.block(layer % model.config.layers)), tokens)
            stream.append(np.asarray(tokens))
            weights.append(np.asarray(attention))
            report(layer + 1)
    run = xr.Dataset({"tokens": (("time", "token", "coordinate"), np.stack(stream))}, {"time": np.arange(layers + 1.0)})
    of_heads = measures.of_attention(xr.DataArray(np.stack(weights), dims=("layer", "head", "token", "source")))
    # Lengths show an overflow; cosines do not, since a single token has none.
    with np.errstate(over="ignore", invalid="ignore"):
        is_whole = np.isfinite((run.tokens.astype(float) ** 2).sum(("token", "coordinate"), skipna=False))
    run = run.where(is_whole).assign(is_whole=is_whole)
    return xr.merge([run, measures.of_tokens(run, angle), of_heads.mean("head", skipna=False)])


@eqx.filter_jit
def _step(block: Block, tokens: AnyArray) -> tuple[AnyArray, AnyArray]:
    return block(tokens), block.attention_weights(tokens)


def _layer_report(report: Report, rungs: list[Rung], place: int, layers: int) -> Callable[[int], None]:
    """The function to call after each layer of a rung."""
    name, count = rungs[place].name, len(rungs)
    return lambda done: report((place + done / layers) / count, f"{name}: layer {done} of {layers}")


def _last_finite(values: np.ndarray) -> float | None:
    finite = values[np.isfinite(values)]
    return float(finite[-1]) if len(finite) else None
