"""The dataset of a study, from its parts, with what is needed to repeat it."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version

import xarray as xr

from attnflow.models.checkpoints import repeated_weights, step_of
from attnflow.models.images import Patches
from attnflow.models.transformer import Model
from attnflow.results.provenance import STUDY
from attnflow.trained.studies.layer_measures import WORDS, MeasureSettings
from attnflow.trained.studies.plan import StudyPart
from attnflow.trained.studies.prompt_sets import StudyPrompt


def joined(
    parts: Sequence[StudyPart], found: Sequence[xr.Dataset], ids: Mapping[str, Sequence[StudyPrompt]]
) -> xr.Dataset:
    """One dataset of all parts, NaN where a model has fewer layers, heads or variants than another."""
    models = list(dict.fromkeys(part.model.name for part in parts))
    variants = list(dict.fromkeys(part.variant.name for part in parts))
    of_models = []
    for model in models:
        own = [(part.variant.name, piece) for part, piece in zip(parts, found, strict=True) if part.model.name == model]
        of_variants = {
            variant: xr.concat([piece for name, piece in own if name == variant], "prompt").sortby("prompt")
            for variant in dict.fromkeys(name for name, _ in own)
        }
        whole = xr.concat(list(of_variants.values()), "variant").assign_coords(variant=list(of_variants))
        lengths = ("prompt", [len(one) for one in ids[model]], {"long_name": "number of tokens", "units": "1"})
        of_models.append(whole.assign(length=lengths).expand_dims(model=[model]))
    study = xr.concat(of_models, "model", join="outer").sel(variant=variants)
    for name, words in WORDS.items():
        study[name].attrs = {"long_name": words, "units": "1"}
    return study.transpose("model", "variant", "prompt", "layer", ...)


def with_steps(study: xr.Dataset, models: Sequence[Model]) -> xr.Dataset:
    """The study with the training step of every model, where names have them, and repeated weights."""
    if len(models) < 2:
        return study
    sentence, steps = repeated_weights(models), known_steps([one.name for one in models])
    found = study.assign_attrs(repeated_weights=sentence) if sentence else study
    if not steps:
        return found
    return found.assign_coords(step=("model", steps, {"long_name": "training step", "units": "1"}))


def known_steps(names: Sequence[str]) -> list[float]:
    """The training step in every name, NaN in one without; none at all unless two or more have one, all different.

    Examples
    --------
    >>> known_steps(["checkpoint-500", "checkpoint-1000", "final"])
    [500, 1000, nan]
    >>> known_steps(["checkpoint-500", "final"])
    []
    """
    steps = [step_of(name) for name in names]
    known = [step for step in steps if step is not None]
    is_clear = len(known) > 1 and len(set(known)) == len(known)
    return [float("nan") if step is None else step for step in steps] if is_clear else []


def study_record(
    models: Sequence[Model],
    prompts: str,
    ids: Mapping[str, Sequence[StudyPrompt]],
    settings: MeasureSettings,
    controls: Sequence[str],
    ladder: bool,
    depths: Mapping[str, int],
    seed: int,
    memory: float,
) -> dict[str, str | int | float]:
    """The settings of a study as attributes: they repeat it, and tell whether parts on disk belong to it."""
    digest = hashlib.sha256(json.dumps([[_identity(one) for one in ids[model.name]] for model in models]).encode())
    return {
        "kind": STUDY,
        "attnflow_version": version("attnflow"),
        "models": json.dumps({model.name: model.origin for model in models}),
        "depths": json.dumps(dict(depths)),
        "prompts": prompts,
        "prompts_digest": digest.hexdigest(),
        "controls": json.dumps(list(controls)),
        "ladder": int(ladder),
        "measure_settings": json.dumps(asdict(settings)),
        "seed": seed,
        "memory": float(memory),
    }


def _identity(prompt: StudyPrompt) -> list | str:
    """What tells a prompt from others: its ids, or the digest of its pixels."""
    return hashlib.sha256(prompt.pixels.tobytes()).hexdigest() if isinstance(prompt, Patches) else prompt.tolist()
