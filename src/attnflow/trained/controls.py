"""Controls of a measurement on a prompt: untrained weights, one token repeated, or one layer iterated."""

import numpy as np

from attnflow._common.checks import require_known
from attnflow._common.seeds import Rng
from attnflow.models.images import Patches
from attnflow.models.tokenizer import Prompt
from attnflow.models.transformer import Model

CONTROLS = ("none", "untrained", "repeated", "iterated")


def controlled(
    model: Model, prompt: Prompt, control: str = "none", layers: int | None = None, *, rng: Rng = 0
) -> tuple[Model, Prompt, int | None]:
    """Model, prompt and number of layers under a control.

    "untrained": random initial weights of the same config. "repeated": as many tokens as the prompt has, all of them
    its middle one (of an image: its middle patch), so that only positions differ. "iterated": 128 layers if `layers`
    is None, for models whose layers are all the same.

    Parameters
    ----------
    model
        A model made by `models.load`.
    prompt
        A text, a list of token ids, or an image.
    control
        "none", "untrained", "repeated" or "iterated".
    layers
        As in `model.trajectory`.
    rng
        Seed of the random weights.

    Examples
    --------
    >>> import attnflow as af
    >>> untrained, prompt, layers = af.trained.controlled(model, [5, 17, 3], "untrained", rng=0)
    >>> untrained.is_untrained, model.is_untrained
    (True, False)
    """
    require_known(control, CONTROLS, "control")
    if control == "untrained":
        return model.reinitialised(rng), prompt, layers
    if control == "repeated":
        tokens = model.encode(prompt)
        if isinstance(tokens, Patches):
            return model, tokens.repeated(), layers
        ids = tokens.ids
        return model, np.full(len(ids), ids[len(ids) // 2]), layers
    return model, prompt, 128 if control == "iterated" and layers is None else layers
