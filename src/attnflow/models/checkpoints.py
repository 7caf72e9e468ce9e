"""Several states of one model along its training: a folder of checkpoints, or revisions of a repository of the hub."""

import hashlib
import os
import re
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from attnflow._common.checks import InputError
from attnflow.models.loading import load
from attnflow.models.transformer import Model

STEP = re.compile(r"(?:step|checkpoint|ckpt|epoch|iter|iteration)s?[-_ ]*([0-9]+)", re.IGNORECASE)


def load_checkpoints(
    name: str | os.PathLike, revisions: Sequence[str] | None = None, dtype: str | None = None
) -> list[Model]:
    """The states of a model along its training, in the order of their steps.

    Parameters
    ----------
    name
        A directory whose folders are checkpoints, each with a config.json ("checkpoint-500" as the Trainer of
        transformers names them, or "step500"), or the name of a repository of the hub.
    revisions
        Branches or tags of the repository, such as ["step0", "step1000"].
    dtype
        As in `load`.

    Returns
    -------
    Models with the name of the folder or the revision, in which the step stands ("step500"). Those without a step come
    last, in alphabetical order.

    Examples
    --------
    >>> import attnflow as af
    >>> import pathlib, shutil, tempfile
    >>> with tempfile.TemporaryDirectory() as training:
    ...     for step in (1000, 200):
    ...         made = shutil.copytree(folder, pathlib.Path(training, f"checkpoint-{step}"))
    ...     [model.name for model in af.models.load_checkpoints(training)]
    ['checkpoint-200', 'checkpoint-1000']
    """
    if revisions is not None:
        if isinstance(revisions, str) or not len(revisions):
            raise InputError(f"`revisions` must be a list of branches or tags, but it is {revisions!r}.")
        return [load(name, dtype, revision=one) for one in sorted(revisions, key=_order)]
    found = checkpoint_folders(name)
    if not found:
        raise InputError(
            f"`name` must be a directory whose folders hold checkpoints, but {name} has no folder with a config.json. "
            "For states of a repository of the hub, pass its revisions."
        )
    return [load(path, dtype) for path in found]


def checkpoint_folders(name: str | os.PathLike) -> list[Path]:
    """The folders of a directory that hold a config.json, by their step; empty if it has one itself."""
    if not os.path.isdir(name) or os.path.isfile(os.path.join(name, "config.json")):
        return []
    return sorted((file.parent for file in Path(name).glob("*/config.json")), key=lambda path: _order(path.name))


def step_of(name: str) -> int | None:
    """The training step in a name: a number by itself, or after "step", "checkpoint" and the like; None without it.

    Examples
    --------
    >>> step_of("checkpoint-500"), step_of("pythia-70m@step1000"), step_of("final")
    (500, 1000, None)
    >>> step_of("smollm2"), step_of("0200")
    (None, 200)
    """
    own = name.rpartition("@")[2]
    found = re.fullmatch(r"([0-9]+)", own) or STEP.search(own)
    return int(found[1]) if found else None


def repeated_weights(models: Sequence[Model]) -> str:
    """A sentence on weights that several models share, from hashes of all their tensors; empty where all differ.

    Examples
    --------
    >>> repeated_weights([model, model])
    'bert and bert have the same weights: no difference between them is one of training.'
    """
    digests = [_digests(one) for one in models]
    same = [(a.name, b.name) for (a, x), (b, y) in combinations(zip(models, digests, strict=True), 2) if x == y]
    if same:
        first, second = same[0]
        more = "" if len(same) == 1 else f" So have {len(same) - 1} more pairs."
        return f"{first} and {second} have the same weights: no difference between them is one of training.{more}"
    common = set.intersection(*(set(one.items()) for one in digests)) if len(digests) > 1 else set()
    if not common:
        return ""
    return f"{len(common)} of {len(digests[0])} tensors are the same in all {len(models)} models."


def _digests(model: Model) -> dict[str, str]:
    """A hash of every tensor by its name."""
    return {name: hashlib.sha256(tensor).hexdigest() for name, tensor in model.stored_bytes()}


def _order(name: str) -> tuple[float, str]:
    step = step_of(name)
    return (float("inf") if step is None else step, name)
