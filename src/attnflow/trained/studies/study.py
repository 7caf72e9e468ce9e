"""`study`: every measure of many prompts in every layer of models, with controls."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError, require_count, require_finite_number, require_positive_number
from attnflow._common.files import require_free, require_suffix, written_beside
from attnflow._common.progress import Progress, Report, reporting
from attnflow._common.threads import one_blas_thread
from attnflow.models.checkpoints import checkpoint_folders, load_checkpoints
from attnflow.models.loading import load
from attnflow.models.tokenizer import Prompt
from attnflow.models.transformer import Model
from attnflow.results.provenance import STUDY
from attnflow.trained import layer_energy, layer_geometry, measures
from attnflow.trained.studies.assembly import joined, study_record, with_steps
from attnflow.trained.studies.layer_measures import OVER_BETA, OVER_HEADS, WORDS, MeasureSettings, measured
from attnflow.trained.studies.layer_states import layer_states
from attnflow.trained.studies.parts import FinishedParts, opened_parts
from attnflow.trained.studies.plan import StudyPart, study_parts
from attnflow.trained.studies.prompt_sets import (
    PromptSet,
    StudyPrompt,
    name_of_set,
    own_ids,
    prompt_set,
    study_prompts,
    token_ids,
)
from attnflow.trained.studies.variants import CONTROLS, variants_of

MEMORY = 2**29  # bytes of hidden states that are kept at a time, 512 MB


def study(
    models: str | os.PathLike | Model | Sequence[str | os.PathLike | Model],
    prompts: str | os.PathLike | Sequence[Prompt] | None = None,
    *,
    controls: Sequence[str] = CONTROLS,
    ladder: bool = False,
    layers: int | None = None,
    angle: float = measures.ANGLE,
    betas: Sequence[float] = layer_energy.BETAS,
    seed: int = 0,
    memory: float = MEMORY,
    out: str | os.PathLike | None = None,
    overwrite: bool = False,
    progress: Progress = None,
) -> xr.Dataset:
    """Measure every prompt in every layer of one or several models and of their controls.

    Parameters
    ----------
    models
        One or several models, or arguments of `models.load`; a directory of checkpoints stands for all of them
        (`models.load_checkpoints`).
    prompts
        A text file with one prompt a line, a list of prompts, or None for the 64 prompts of this package. A line is a
        text; ids with commas between for a model without a tokenizer; the path of an image for a model of images. For
        None a model of reactions or proteins gets 16 of those, and a model without a tokenizer 64 of 24 random ids.
    controls
        Some of "untrained", "equal attention", "swapped heads" and "shuffled tokens".
    ladder
        Whether the rungs of `trained.ladder` are variants, too.
    layers
        As in `model.trajectory`.
    angle, betas
        As in `prompt_report`.
    seed
        Seed of the untrained weights and of the order of shuffled tokens.
    memory
        Bytes of hidden states that are kept at a time; prompts are divided accordingly.
    out
        A netCDF file (``.nc``) for the result. While the study is computed, finished parts are kept in a folder beside
        it, and the same call goes on from them after an interruption.
    overwrite
        Whether a file of that name is replaced.
    progress
        As in `simulate`.

    Returns
    -------
    A dataset with every measure over (model, variant, prompt, layer), some of them also over head or beta; layer 0 is
    the embedding, and measures of attention begin at layer 1. NaN where a model has no such layer or head, or the
    measure is not defined. `length` is the number of tokens over (model, prompt). Checkpoints have the coordinate
    `step`; weights that several models share are named in the attribute `repeated_weights`.

    Examples
    --------
    >>> import attnflow as af
    >>> found = af.trained.study(model, [[5, 17, 3, 5], [7, 7, 3]], controls=["shuffled tokens"], progress=False)
    >>> dict(found.mean_cosine.sizes) == {"model": 1, "variant": 2, "prompt": 2, "layer": model.config.layers + 1}
    True
    """
    settings = _checked_settings(angle, betas, seed, memory)
    opened = [model for one in _as_list(models) for model in opened_models(one)]
    _require_different(opened)
    asked = prompt_set(prompts)
    ids = {one.name: _ids_of(one, asked, prompts is None, seed) for one in opened}
    variants = {one.name: variants_of(one, controls, has_ladder=ladder) for one in opened}
    depths = {one.name: one.require_depth(layers) for one in opened}
    path = None if out is None else _require_free_study(out, overwrite=overwrite)
    parts = list(study_parts(opened, variants, ids, memory))
    record = study_record(
        opened,
        name_of_set(asked, opened, is_own=prompts is None),
        ids,
        settings,
        controls,
        ladder,
        depths,
        seed,
        memory,
    )
    with opened_parts(path, record) as kept, reporting(progress) as report, one_blas_thread():
        found = [
            _of_part(
                part, ids[part.model.name], depths[part.model.name], settings, seed, kept, _share(report, place, parts)
            )
            for place, part in enumerate(parts)
        ]
        whole = with_steps(joined(parts, found, ids).assign_attrs(record), opened)
        if path is not None:
            with written_beside(path) as beside:
                whole.to_netcdf(beside, engine="scipy")
    return whole


def load_study(path: str | os.PathLike) -> xr.Dataset:
    """The dataset of a study from its file.

    Parameters
    ----------
    path
        The file that `study` wrote.

    Examples
    --------
    >>> import attnflow as af
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = af.trained.study(model, [[5, 17, 3]], controls=[], out=f"{folder}/study.nc", progress=False)
    ...     af.trained.load_study(f"{folder}/study.nc").equals(made)
    True
    """
    try:
        found = xr.load_dataset(path, engine="scipy")
    except FileNotFoundError as error:
        raise InputError(f"There is no study at {path}.") from error
    except Exception as error:  # a file of another format can raise anything
        raise InputError(f"{path} cannot be read as a study ({type(error).__name__}). Compute it again.") from error
    return require_study(found, str(path))


def require_study(dataset: xr.Dataset, name: str = "`study`") -> xr.Dataset:
    """The dataset, if `study` made it."""
    if not isinstance(dataset, xr.Dataset) or dataset.attrs.get("kind") != STUDY or "mean_cosine" not in dataset:
        raise InputError(f"{name} is not a study: pass what `trained.study` returned or `attnflow study --out` wrote.")
    return dataset


def _checked_settings(angle: float, betas: Sequence[float], seed: int, memory: float) -> MeasureSettings:
    require_positive_number(angle, "angle")
    require_positive_number(memory, "memory")
    require_count(seed, "seed", least=0)
    for beta in betas:
        require_finite_number(beta, "beta")
    return MeasureSettings(float(angle), tuple(float(beta) for beta in betas))


def _as_list(models: object) -> list:
    return [models] if isinstance(models, str | os.PathLike | Model) else list(models)  # type: ignore[call-overload]


def opened_models(one: str | os.PathLike | Model) -> list[Model]:
    """The model of a name or a path, or all checkpoints of a directory."""
    if isinstance(one, Model):
        return [one]
    return load_checkpoints(one) if checkpoint_folders(one) else [load(one)]


def _require_different(models: Sequence[Model]) -> None:
    if not models:
        raise InputError("`models` must be at least one model, but it is empty.")
    names = [model.name for model in models]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"`models` must have different names, but {twice[0]!r} stands {names.count(twice[0])} times.")


def _require_free_study(out: str | os.PathLike, *, overwrite: bool) -> Path:
    require_suffix(out, "A study", (".nc",))
    return require_free(out, overwrite=overwrite)


def _ids_of(model: Model, asked: PromptSet, is_built_in: bool, seed: int) -> list[StudyPrompt]:
    if is_built_in:
        return list(own_ids(model, len(asked.prompts), seed))
    return study_prompts(model, asked.prompts)


def _of_part(
    part: StudyPart,
    ids: list[StudyPrompt],
    layers: int,
    settings: MeasureSettings,
    seed: int,
    kept: FinishedParts,
    report: Callable[[float], None],
) -> xr.Dataset:
    """The measures of a part, from its file if it is finished."""
    found = kept.read(part.name)
    if found is None:
        found = _computed(part, ids, layers, settings, seed, report)
        kept.write(part.name, found)
    report(1.0)
    return found


def _computed(
    part: StudyPart,
    ids: list[StudyPrompt],
    layers: int,
    settings: MeasureSettings,
    seed: int,
    report: Callable[[float], None],
) -> xr.Dataset:
    model = (
        part.model.reinitialised(np.random.SeedSequence([seed, part.draw])) if part.variant.is_untrained else part.model
    )
    prompts = [part.variant.ids(ids[place], np.random.default_rng([seed, place])) for place in part.prompts]
    arrays = _empty(len(prompts), layers, model.config.heads, len(settings.betas))
    directions = [np.zeros((len(one), model.config.width)) for one in prompts]  # sums of unit steps
    steps = len(prompts) * (layers + 1)
    for done, state in enumerate(layer_states(model, part.variant, prompts, layers), start=1):
        for name, value in measured(state, token_ids(prompts[state.prompt]), settings).items():
            arrays[name][state.prompt, state.layer] = value
        if state.before is not None:
            directions[state.prompt] += layer_geometry.unit_steps(state.before, state.tokens)
        report(done / steps)
    for place, total in enumerate(directions):
        arrays["line_shape_score"][place] = layer_geometry.score_of_directions(total, layers)
    numbered = {"layer": np.arange(layers + 1), "head": np.arange(model.config.heads)}
    coordinates = {"prompt": list(part.prompts), "beta": list(settings.betas)} | numbered
    return xr.Dataset({name: (_dimensions(name), array) for name, array in arrays.items()}, coordinates)


def _empty(prompts: int, layers: int, heads: int, betas: int) -> dict[str, np.ndarray]:
    sizes = {"prompt": prompts, "layer": layers + 1, "head": heads, "beta": betas}
    return {name: np.full([sizes[dimension] for dimension in _dimensions(name)], np.nan) for name in WORDS}


def _dimensions(name: str) -> tuple[str, ...]:
    if name == "line_shape_score":
        return ("prompt",)
    further = ("beta",) if name in OVER_BETA else ("head",) if name in OVER_HEADS else ()
    return ("prompt", "layer", *further)


def _share(report: Report, place: int, parts: Sequence[StudyPart]) -> Callable[[float], None]:
    """The function to call with the fraction of a part that is done."""
    part = parts[place]
    sentence = f"{part.model.name}, {part.variant.name}: {len(part.prompts)} prompts"
    return lambda fraction: report((place + fraction) / len(parts), sentence)
