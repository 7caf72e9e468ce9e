"""The table of heads: for each head its spectrum, the predicted limit, and the limit of a simulation."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError, require_count
from attnflow._common.plain import json_value
from attnflow._common.progress import Progress, reporting
from attnflow._common.threads import one_blas_thread
from attnflow.analyse import low_rank
from attnflow.model.heads import Head
from attnflow.models.transformer import Model
from attnflow.trained.head_controls import controls_table
from attnflow.trained.head_limits import KINDS, kind_of, limits, value_factors


def head_table(
    model: Model,
    layers: Sequence[int] | None = None,
    *,
    runs: int = 1,
    seed: int = 0,
    controls: int = 24,
    progress: Progress = None,
) -> xr.Dataset:
    """Measure V_h = W_O W_V and B_h = Q^T K of every head, over (layer, head), without forming a d x d matrix.

    Heads are those of `model.heads`. In GPT-2 and Llama gain and centring of the norm before attention are part of
    them, and they act on tokens of root mean square 1: x / rms(x) for a token x of the residual stream. Biases and
    rotary positions are in no column, as ``attrs["has_biases"]`` and ``attrs["has_rotary_positions"]`` say.

    On SmolLM2-135M (30 x 9 heads, a prompt of 22 tokens) scores and outputs of these matrices on x / rms(x) are those
    inside the model without rotary positions to 1e-14. Rotary positions then change the attention weights of a token
    by a total variation of 0.11 (median over heads; at most 0.82).

    Parameters
    ----------
    model
        A trained transformer.
    layers
        Numbers of the layers to include, the first being 0. None: all that differ (one where layers are shared).
    runs
        Simulations of each head, from 8 Gaussian tokens. 0: no simulations, only spectra.
    seed
        Seed of the initial tokens, of random Q and K, and of fresh weights.
    controls
        Number of heads, evenly chosen, whose simulation is repeated with other matrices: the table of
        `head_controls.controls_table`, at the cost of four simulations of each. 0, or `runs` 0: none.
    progress
        As in `simulate`.

    Returns
    -------
    A dataset with, over (layer, head),

    - ``real_part``, ``imaginary_part`` of the leading eigenvalue of V_h, the one with the largest real part among the
      k that need not be zero; ``kind``, one of "real-positive", "real-negative" and "complex"; ``gap`` to the next
      real part; ``positive_share`` of eigenvalues with positive real part;
    - ``dominant_real_part``, ``dominant_imaginary_part`` and ``dominant_kind`` of the eigenvalue of largest modulus,
      ``radius``; it is often negative where the leading one is positive;
    - ``effective_beta`` = sqrt(d) |sym B_h|_F, as published; ``whole_beta`` = sqrt(d) |B_h|_F, which includes the
      antisymmetric part; ``form_least`` and ``form_greatest``, the extreme eigenvalues of
      sym B_h; and ``definiteness`` in words;
    - ``predicted``, ``proved`` and ``by``: the limit that `predict` gives for the rescaled flow on the range of V_h,
      which contains all its motion; where none is known, the one that the leading eigenvalue suggests
      (``by`` is "spectrum");
    - ``simulated`` in words, ``agreement``, the share of decided runs with the predicted limit, ``agreeing`` and
      ``undecided``, the numbers of such runs, and ``several_hyperplanes``, that of runs with two or three hyperplanes,
      where equal weights of all tokens give one;

    all eigenvalues, ``eigenvalue_real`` and ``eigenvalue_imaginary``, over (layer, head, eigenvalue); and over
    `control` the counts of simulations with other matrices, ``control_runs``, ``control_agreeing`` and so on.

    Examples
    --------
    >>> import attnflow as af
    >>> table = af.trained.head_table(model, runs=0)
    >>> table.kind.dims
    ('layer', 'head')
    """
    chosen = require_table_arguments(model, layers, runs, controls)
    rows, total = [], len(chosen) * model.config.heads
    with reporting(progress) as report, one_blas_thread():
        for layer in chosen:
            for number, head in enumerate(model.heads(layer)):
                rows.append(_row(head, runs, seed))
                report(len(rows) / total, f"layer {layer}, head {number}")
    table = _dataset(model, chosen, rows).assign_attrs(runs=runs)
    if runs == 0 or controls == 0:
        return table
    with one_blas_thread():
        return table.merge(
            controls_table(table, model, runs=runs, seed=seed, count=controls), combine_attrs="no_conflicts"
        )


def head_rows(table: xr.Dataset) -> list[dict[str, Any]]:
    """The table as plain rows, for CSV and JSON; numbers that are not finite are None.

    Examples
    --------
    >>> import attnflow as af
    >>> rows = af.trained.head_rows(af.trained.head_table(model, [1], runs=0))
    >>> [(row["layer"], row["head"]) for row in rows][:2]
    [(1, 0), (1, 1)]
    """
    names = [str(name) for name, values in table.items() if values.dims == ("layer", "head")]
    places = [(layer, head) for layer in range(table.sizes["layer"]) for head in range(table.sizes["head"])]
    return [
        {"layer": int(table.layer[layer]), "head": int(table["head"][head])}
        | {name: json_value(table[name].values[layer, head]) for name in names}
        for layer, head in places
    ]


def strongest(table: xr.Dataset, kind: str) -> tuple[int, int] | None:
    """Layer and head of a kind whose leading eigenvalue is largest in modulus; None where there is no such head.

    Parameters
    ----------
    table
        A table made by `head_table`.
    kind
        "real-positive", "real-negative" or "complex".

    Examples
    --------
    >>> import attnflow as af
    >>> layer, head = af.trained.strongest(af.trained.head_table(model, runs=0), "complex")
    >>> head < model.config.heads
    True
    """
    if kind not in KINDS:
        raise InputError(f"`kind` must be one of {', '.join(KINDS)}, but it is {kind!r}.")
    sizes = np.where(table.kind.values == kind, np.hypot(table.real_part, table.imaginary_part).values, -1.0)
    layer, head = np.unravel_index(int(sizes.argmax()), sizes.shape)
    return (int(table.layer[layer]), int(table["head"][head])) if sizes[layer, head] >= 0 else None


def eigenvalues_of_heads(model: Model, layers: Sequence[int] | None = None) -> np.ndarray:
    """The k eigenvalues of every V_h that need not be zero, complex, (layer, head, k).

    Parameters
    ----------
    model
        A model made by `models.load`.
    layers
        Numbers of layers, the first being 0. None: all.

    Examples
    --------
    >>> import attnflow as af
    >>> af.trained.eigenvalues_of_heads(model).shape[:2] == (model.config.layers, model.config.heads)
    True
    """
    chosen = _layers(model, layers)
    with one_blas_thread():
        return np.stack(
            [[low_rank.eigenvalues(*value_factors(head)) for head in model.heads(layer)] for layer in chosen]
        )


def require_table_arguments(model: Model, layers: Sequence[int] | None, runs: int, controls: int) -> list[int]:
    """The layers of the table, after a check of all arguments of `head_table` but the seed."""
    require_count(runs, "runs", least=0)
    require_count(controls, "controls", least=0)
    return _layers(model, layers)


def _layers(model: Model, layers: Sequence[int] | None) -> list[int]:
    if layers is None:
        return [0] if model.config.shares_layers else list(range(model.config.layers))
    if len(layers) == 0:
        raise InputError("`layers` must name at least one layer, but it is empty.")
    for layer in layers:
        model.require_layer(layer, "layers")
    return list(layers)


def _row(head: Head, runs: int, seed: int) -> dict[str, Any]:
    values = low_rank.eigenvalues(*value_factors(head))
    lead, reals = complex(values[0]), np.real(values)
    lower = reals[reals < lead.real]
    kind, dominant = kind_of(lead), complex(values[np.abs(values).argmax()])
    found = {
        "real_part": lead.real,
        "imaginary_part": abs(lead.imag),
        "kind": kind,
        "gap": lead.real - lower.max() if len(lower) else np.inf,
        "radius": abs(dominant),
        "dominant_real_part": dominant.real,
        "dominant_imaginary_part": abs(dominant.imag),
        "dominant_kind": kind_of(dominant),
        "positive_share": np.mean(reals > 0),
    }
    return found | _form(head) | limits(head, runs, seed) | {"values": values}


def _form(head: Head) -> dict[str, Any]:
    """Measurements of B = Q^T K and its symmetric part."""
    query, key = np.asarray(head.query), np.asarray(head.key)
    values = low_rank.symmetric_eigenvalues(query.T, key)
    least, greatest = float(values[0]), float(values[-1])
    zero = 1e-9 * max(abs(least), abs(greatest))  # smaller eigenvalues are rounding
    word = "indefinite" if least < -zero and greatest > zero else "positive" if greatest > zero else "negative"
    return {
        "effective_beta": math.sqrt(head.dimension) * low_rank.symmetric_norm(query.T, key),
        "whole_beta": math.sqrt(head.dimension) * low_rank.norm(query.T, key),
        "form_least": least,
        "form_greatest": greatest,
        "definiteness": word,
    }


def _dataset(model: Model, layers: list[int], rows: list[dict[str, Any]]) -> xr.Dataset:
    shape = (len(layers), model.config.heads)
    values = np.stack([row.pop("values") for row in rows]).reshape(*shape, -1)
    variables: dict[str, Any] = {
        name: (("layer", "head"), np.array([row[name] for row in rows]).reshape(shape)) for name in rows[0]
    }
    per_value = ("layer", "head", "eigenvalue")
    variables |= {"eigenvalue_real": (per_value, np.real(values)), "eigenvalue_imaginary": (per_value, np.imag(values))}
    attributes: dict[str, Any] = {"model": model.name, "family": model.family, "width": model.config.width}
    attributes["norm_place"] = model.config.norm_place
    attributes |= _parts_left_out(model, layers[0])
    return xr.Dataset(variables, {"layer": layers, "head": np.arange(shape[1])}, attributes)


def _parts_left_out(model: Model, layer: int) -> dict[str, Any]:
    """Whether the model has biases and rotary positions, and the names of all parts that heads leave out."""
    parts = model.left_out_of_heads(layer)
    kinds = {"has_biases": "biases", "has_rotary_positions": "rotary positions"}
    return {name: part in parts for name, part in kinds.items()} | {"left_out": list(parts)}
