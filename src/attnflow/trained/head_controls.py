"""Controls of the simulations of a table of heads: the same V with other Q and K, and untrained heads."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import xarray as xr
from scipy.stats import fisher_exact

from attnflow._common.plain import evenly_spaced
from attnflow.model.heads import Head
from attnflow.models.transformer import Model
from attnflow.trained.head_limits import limits

CONTROLS = ("Q = K = 0", "random Q and K", "Q and K of the next head", "untrained head")
COUNTS = ("agreeing", "undecided", "several_hyperplanes")
LEVEL = 0.05  # p-value below which two counts are said to differ


def controls_table(table: xr.Dataset, model: Model, *, runs: int, seed: int, count: int) -> xr.Dataset:
    """Simulate `count` heads, evenly chosen from a `head_table`, with other matrices, and count their limits.

    The controls keep V and replace Q and K: by zero (equal weights of all tokens), by Gaussian matrices of the same
    Frobenius norms, and by those of the next head of the layer. The last one is the same head of the model with
    fresh weights. Returned over `control`: `control_runs`, the number of simulations, and how many of them are
    `control_agreeing` with the prediction, `control_undecided`, and with `control_several_hyperplanes`; and
    ``attrs["control_heads"]``, the number of heads.
    """
    layers, heads = table.layer.values.tolist(), table.sizes["head"]
    places = [divmod(int(place), heads) for place in evenly_spaced(len(layers) * heads, count)]
    untrained = None if model.is_untrained else model.reinitialised(seed)
    own = "untrained" if model.is_untrained else "trained"
    totals = {name: dict.fromkeys(("runs", *COUNTS), 0) for name in (own, *CONTROLS)}
    for layer in sorted({place for place, _ in places}):
        of_layer, fresh = model.heads(layers[layer]), untrained and untrained.heads(layers[layer])
        for number in (head for place, head in places if place == layer):
            rng = np.random.default_rng([seed, layer, number])
            limits_of = {name: limits(head, runs, seed) for name, head in _controls(of_layer, fresh, number, rng)}
            limits_of[own] = {counted: int(table[counted][layer, number]) for counted in COUNTS}
            for name, found in limits_of.items():
                totals[name]["runs"] += runs
                for counted in COUNTS:
                    totals[name][counted] += found[counted]
    variables: dict[str, Any] = {
        f"control_{counted}": ("control", np.array([of_one[counted] for of_one in totals.values()]))
        for counted in ("runs", *COUNTS)
    }
    return xr.Dataset(variables, {"control": np.array(list(totals), dtype=object)}, {"control_heads": len(places)})


def control_rows(table: xr.Dataset) -> list[dict[str, Any]]:
    """One row a control of a `head_table`: its counts, and the p-values of counts equal to those of the trained heads.

    The p-values are those of Fisher's exact test on the two-by-two table of runs that count and runs that do not.
    A control without runs is left out: the next head, where a layer has one, and the untrained head of an untrained
    model. Without controls there are no rows.

    Examples
    --------
    >>> import attnflow as af
    >>> table = af.trained.head_table(model, [0], controls=1, progress=False)
    >>> [row["control"] for row in af.trained.control_rows(table)][:2]
    ['trained', 'Q = K = 0']
    """
    if "control" not in table.sizes:
        return []
    rows = [
        {"control": str(one.control.item())} | {name: int(one[f"control_{name}"]) for name in ("runs", *COUNTS)}
        for one in (table.isel(control=place) for place in range(table.sizes["control"]))
    ]
    own = rows[0]
    tested = {"p_agreeing": "agreeing", "p_several_hyperplanes": "several_hyperplanes"}
    return [
        row | {p: None if row is own else _p_value(own, row, name) for p, name in tested.items()}
        for row in rows
        if row["runs"]
    ]


def controls_sentences(table: xr.Dataset) -> list[str]:
    """The counts of the trained heads and of every control, and which controls differ; empty without controls.

    Parameters
    ----------
    table
        A table made by `head_table` with controls.

    Examples
    --------
    >>> import attnflow as af
    >>> table = af.trained.head_table(model, [0], controls=1, progress=False)
    >>> len(af.trained.controls_sentences(table))
    2
    """
    rows = control_rows(table)
    if not rows:
        return []
    heads = table.attrs["control_heads"]
    return [
        f"Simulations that reach the limit predicted from V, repeated on {heads} heads with controls (undecided ones "
        f"are not counted): {_counts(rows, 'agreeing')}. {control_verdict(rows, 'agreeing')}",
        "Simulations with two or three hyperplanes (equal weights of all tokens give one): "
        f"{_counts(rows, 'several_hyperplanes')}. {control_verdict(rows, 'several_hyperplanes')}",
    ]


def _counts(rows: Sequence[dict[str, Any]], name: str) -> str:
    return "; ".join(f"{row['control']}: {row[name]} of {row['runs']}" for row in rows)


def control_verdict(rows: Sequence[dict[str, Any]], name: str) -> str:
    """Which of the controls differ from the trained heads in this count; or that there are too few runs to tell.

    Examples
    --------
    Two of two and none of two differ with p = 1/3, and no counts of two runs each differ more.

    >>> rows = [{"control": one, "runs": 2, "agreeing": 2, "p_agreeing": 1.0} for one in ("trained", "Q = K = 0")]
    >>> control_verdict(rows, "agreeing")
    "2 simulations are too few to tell a difference (Fisher's exact test, p < 0.05)."
    """
    differing = [row["control"] for row in rows[1:] if row[f"p_{name}"] < LEVEL]
    test = f"Fisher's exact test, p < {LEVEL:g}"
    own = rows[0]
    if differing:
        return f"The {own['control']} heads differ from: {', '.join(differing)} ({test})."
    all_of, none_of = own | {name: own["runs"]}, [row | {name: 0} for row in rows[1:]]
    if all(_p_value(all_of, row, name) >= LEVEL for row in none_of):
        return f"{own['runs']} simulations are too few to tell a difference ({test})."
    return f"The {own['control']} heads differ from no control ({test}): no evidence of an effect of Q and K."


def _p_value(first: dict[str, Any], second: dict[str, Any], name: str) -> float:
    table = [[row[name], row["runs"] - row[name]] for row in (first, second)]
    _, p_value = np.asarray(fisher_exact(table), dtype=float)
    return float(p_value)


def _controls(
    heads: list[Head], untrained: list[Head] | None, number: int, rng: np.random.Generator
) -> Iterator[tuple[str, Head]]:
    """The controls of a head, by their names in `CONTROLS`."""
    head, other = heads[number], heads[(number + 1) % len(heads)]
    query, key = np.asarray(head.query), np.asarray(head.key)
    drawn = [rng.standard_normal(query.shape) for _ in range(2)]
    random = [one * np.linalg.norm(own) / np.linalg.norm(one) for one, own in zip(drawn, (query, key), strict=True)]
    yield CONTROLS[0], Head(0 * query, 0 * key, head.value, head.output)
    yield CONTROLS[1], Head(random[0], random[1], head.value, head.output)
    if other is not head:
        yield CONTROLS[2], Head(other.query, other.key, head.value, head.output)
    if untrained is not None:
        yield CONTROLS[3], untrained[number]
