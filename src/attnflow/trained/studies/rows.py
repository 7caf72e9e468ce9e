"""The table of a study: mean, spread and interval of every measure, and its difference from the trained model."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import require_known
from attnflow._common.plain import json_value
from attnflow.trained.studies.bootstrap import MeanInterval, mean_interval
from attnflow.trained.studies.layer_measures import OVER_BETA, OVER_HEADS, RANGES, WORDS
from attnflow.trained.studies.study import require_study
from attnflow.trained.studies.variants import TRAINED


def study_rows(study: xr.Dataset, measures: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """One row for every model, variant, measure and layer that has values.

    Parameters
    ----------
    study
        Made by `trained.study`.
    measures
        Names of measures; None for all. Energies have a row for each beta; measures by head are means over heads.

    Returns
    -------
    Rows with `model`, `variant`, `measure`, `beta`, `layer`, the number of `prompts`, the `mean` over them, their
    standard `deviation`, and the 95 % interval of the mean, `low` to `high`; for controls also `trained_minus`, the
    mean of the trained model's value less the control's on the same prompt, with its interval. None where there is no
    value, and no interval for fewer than five prompts. ``pandas.DataFrame(rows)`` makes a table of them.

    Examples
    --------
    >>> import attnflow as af
    >>> prompts = [[5, 17, 3, 5], [7, 7, 3], [1, 2, 3], [9, 8], [4, 4]]
    >>> found = af.trained.study(model, prompts, controls=["equal attention"], progress=False)
    >>> rows = af.trained.study_rows(found, ["mean_cosine"])
    >>> len(rows) == 2 * (model.config.layers + 1), rows[0]["variant"], rows[0]["prompts"]
    (True, 'trained', 5)
    """
    require_study(study)
    for name in measures or ():
        require_known(name, WORDS, "measures")
    rows = []
    for name in measures or WORDS:
        for model in study.model.values:
            for beta, values in _columns(study[name].sel(model=model)):
                rows += _rows_of(values, {"measure": name, "model": str(model), "beta": beta})
    return rows


def baseline_sentence(study: xr.Dataset) -> str:
    """The centred cosine of tokens that share nothing but their number, with its mean over the prompts of the study."""
    lengths = study.length.values
    pairs = np.where(lengths > 1, lengths - 1.0, np.nan)
    if np.isnan(pairs).all():
        return "undefined: no prompt has two tokens"
    means = np.nanmean(-1 / pairs, axis=-1)
    least, most = f"{means.min():.3g}", f"{means.max():.3g}"
    here = least if least == most else f"{least} to {most}"
    return (
        "about their mean direction n tokens in random directions have a mean cosine of about -1/(n - 1), which is "
        f"{here} in the mean over these prompts; only differences from that tell of gathering"
    )


def measure_summary(study: xr.Dataset, name: str, model: str, beta: float | None = None) -> dict[str, MeanInterval]:
    """Mean and interval of one measure over layers, for every variant that the model has."""
    columns = dict(_columns(study[name].sel(model=model)))
    values = columns[beta]
    return {variant: _interval(values.sel(variant=variant)) for variant in _variants(values)}


def _columns(values: xr.DataArray) -> Iterator[tuple[float | None, xr.DataArray]]:
    """A measure for every beta it has; over heads, its mean."""
    if values.name in OVER_BETA:
        for beta in values.beta.values:
            yield float(beta), values.sel(beta=beta)
    else:
        yield None, values.mean("head", skipna=True) if values.name in OVER_HEADS else values


def _interval(values: xr.DataArray) -> MeanInterval:
    """Mean and interval over prompts, within the range that the measure can have."""
    return mean_interval(values.values, within=RANGES.get(str(values.name), (-np.inf, np.inf)))


def _variants(values: xr.DataArray) -> list[str]:
    """The variants that have any value."""
    return [str(name) for name in values.variant.values if np.isfinite(values.sel(variant=name)).any()]


def _rows_of(values: xr.DataArray, common: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for variant in _variants(values):
        own = values.sel(variant=variant)
        found = _interval(own)
        gap = None if variant == TRAINED else mean_interval(values.sel(variant=TRAINED).values - own.values)
        layers = values.layer.values.tolist() if "layer" in values.dims else [None]
        for place, layer in enumerate(layers):
            if np.ravel(found.prompts)[place] > 0:
                rows.append(common | {"variant": variant, "layer": layer} | _numbers(found, gap, place))
    return rows


def _numbers(found: MeanInterval, gap: MeanInterval | None, place: int) -> dict[str, Any]:
    at = lambda array: json_value(float(np.ravel(array)[place]))
    names = ("mean", "low", "high")
    of_gap = {name: None if gap is None else at(getattr(gap, name)) for name in names}
    return {
        "prompts": int(np.ravel(found.prompts)[place]),
        "mean": at(found.mean),
        "deviation": at(found.deviation),
        "low": at(found.low),
        "high": at(found.high),
        "trained_minus": of_gap["mean"],
        "trained_minus_low": of_gap["low"],
        "trained_minus_high": of_gap["high"],
    }
