"""The parts of a study that are computed one after the other."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attnflow._common.checks import InputError
from attnflow.models.transformer import Model
from attnflow.trained.studies.prompt_sets import StudyPrompt
from attnflow.trained.studies.variants import DRAWS, Variant


@dataclass(frozen=True)
class StudyPart:
    """Prompts of one model and variant that are computed together."""

    model: Model
    variant: Variant
    prompts: tuple[int, ...]
    name: str
    """The name of its file while the study is not finished."""
    draw: int = 0
    """Number of the random weights, if the variant has them."""


def study_parts(
    models: Sequence[Model],
    variants: Mapping[str, Sequence[Variant]],
    ids: Mapping[str, Sequence[StudyPrompt]],
    memory: float,
) -> Iterator[StudyPart]:
    """Prompts in groups whose hidden states fit into `memory` bytes; with random weights, one group a draw at least."""
    for place, model in enumerate(models):
        sizes = np.array([len(one) * model.config.width * 8 for one in ids[model.name]])
        _require_room(sizes, memory, model.name)
        for variant in variants[model.name]:
            draws = min(DRAWS, len(sizes)) if variant.is_untrained else 1
            for draw in range(draws):
                for number, group in enumerate(_groups(np.arange(len(sizes))[draw::draws], sizes, memory)):
                    name = re.sub(r"\W+", "-", f"{place} {variant.name} {draw} {number}")
                    yield StudyPart(model, variant, tuple(group), name, draw)


def _require_room(sizes: np.ndarray, memory: float, name: str) -> None:
    """Raise unless `memory` bytes hold the hidden states of the longest prompt."""
    if memory < sizes.max():
        raise InputError(
            f"`memory` must hold the hidden states of a prompt, in {name} up to {sizes.max():,} bytes, but it is "
            f"{memory:,.0f}. It is in bytes (`--memory` in megabytes): 512e6 is usual."
        )


def _groups(places: np.ndarray, sizes: np.ndarray, memory: float) -> Iterator[list[int]]:
    """Places in order, in groups of at most `memory` bytes."""
    group: list[int] = []
    for place in places.tolist():
        if group and sizes[group].sum() + sizes[place] > memory:
            yield group
            group = []
        group.append(place)
    if group:
        yield group
