"""Prompts cut to one length, so that all of them form one batch."""

from collections.abc import Sequence

import numpy as np

from attnflow._common.checks import InputError
from attnflow.models.transformer import Model
from attnflow.trained.studies.prompt_sets import encoded, random_ids


def prompts_of_length(
    model: Model, prompts: Sequence[str], length: int, count: int | None = None, seed: int = 0
) -> np.ndarray:
    """Ids (prompts, length) of the first prompts that have so many tokens, of which further tokens are cut off.

    A model without a tokenizer gets random ids: `count` prompts, or as many as are given. With fewer prompts of
    that length than `count`, those that there are; InputError if there is none.

    Examples
    --------
    >>> prompts_of_length(model, ["a prompt"] * 3, length=4).shape  # of random ids, without a tokenizer
    (3, 4)
    """
    if not model.reads_text:
        return np.stack(random_ids(model, len(prompts) if count is None else count, length, seed))
    long_enough = [ids[:length] for ids in encoded(model, prompts) if len(ids) >= length]
    if not long_enough:
        raise InputError(f"`length` must be at most that of the longest prompt, but none has {length} tokens.")
    return np.stack(long_enough[:count])
