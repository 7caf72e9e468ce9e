"""A few combinations of options in which every pair of values, or every group of several, occurs."""

import itertools
from typing import Any

import numpy as np

DRAWS = 60  # combinations tried for each that is taken; more of them find a shorter list


def covering(options: dict[str, list[Any]], strength: int, rng: int = 0) -> list[dict[str, Any]]:
    """Combinations in which the values of any `strength` options occur in every way.

    Each is the best of some that are drawn at random around a group of values that is still missing.
    """
    generator, names = np.random.default_rng(rng), list(options)
    missing = {
        tuple(zip(group, values, strict=True))
        for group in itertools.combinations(range(len(names)), min(strength, len(names)))
        for values in itertools.product(*(range(len(options[names[k]])) for k in group))
    }
    found = []
    while missing:
        wanted = dict(min(missing))
        drawn = [
            [wanted.get(k, int(generator.integers(len(options[name])))) for k, name in enumerate(names)]
            for _ in range(DRAWS)
        ]
        groups = [_groups(choice, min(strength, len(names))) & missing for choice in drawn]
        best = max(range(DRAWS), key=lambda k: len(groups[k]))
        missing -= groups[best]
        found.append({name: options[name][k] for name, k in zip(names, drawn[best], strict=True)})
    return found


def _groups(choice: list[int], strength: int) -> set[tuple]:
    return set(itertools.combinations(enumerate(choice), strength))
