"""The run of a prompt through a model, which measurements share: made of a prompt, or handed over."""

import xarray as xr

from attnflow._common.checks import InputError
from attnflow._common.progress import Progress
from attnflow.models.tokenizer import Prompt
from attnflow.models.transformer import Model


def run_of(
    model: Model,
    prompt: Prompt | xr.Dataset,
    layers: int | None = None,
    *,
    attention: bool = False,
    progress: Progress = False,
) -> xr.Dataset:
    """The trajectory of a prompt; a dataset of `model.trajectory` or `prompt_report` is returned as it is.

    A dataset has the layers it was made with: another number of `layers` is refused.

    Examples
    --------
    >>> run = model.trajectory([5, 17, 3], progress=False)
    >>> run_of(model, run) is run
    True
    """
    if not isinstance(prompt, xr.Dataset):
        return model.trajectory(prompt, layers, attention=attention, progress=progress)
    is_of_model = prompt.attrs.get("model") == model.name and "tokens" in prompt
    if not is_of_model or prompt.sizes.get("coordinate") != model.config.width:
        raise InputError(
            f"`prompt` must be a prompt, or a run of {model.name} made by `trajectory` or `prompt_report`, but it is "
            f"a dataset of {prompt.attrs.get('model', 'another kind')}."
        )
    depth = prompt.sizes["time"] - 1
    if layers not in (None, depth):
        raise InputError(f"`layers` must be left out with a run, which has {depth} layers here, but it is {layers}.")
    if attention and "attention" not in prompt:
        raise InputError("`prompt` is a run without attention. Make it with `model.trajectory(..., attention=True)`.")
    return prompt
