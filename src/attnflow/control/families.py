"""Families of flows: the space, the mask, and the parts whose weights may be chosen."""

from dataclasses import dataclass, field

from attnflow._common.checks import require_known
from attnflow.control.weight_schedules import SPACES
from attnflow.model.masks import AbstractMask, Full


@dataclass(frozen=True)
class FlowFamily:
    """Flows whose weights are free controls, functions of time, unless `value` fixes V.

    Parameters
    ----------
    space
        "sphere" or "euclidean".
    mask
        The tokens that each token attends to.
    attention, perceptron
        Whether the flows have softmax attention, and a perceptron.
    value
        "free", or "identity" for V = I.

    Examples
    --------
    >>> import attnflow as af
    >>> family = af.control.FlowFamily(mask=af.masks.causal, perceptron=False)
    >>> family.space, family.has_one_field
    ('sphere', False)
    """

    space: str = "sphere"
    mask: AbstractMask = field(default_factory=Full)
    attention: bool = True
    perceptron: bool = True
    value: str = "free"

    def __post_init__(self):
        require_known(self.space, SPACES, "space")
        require_known(self.value, ("free", "identity"), "value")

    @property
    def has_one_field(self) -> bool:
        """Whether one velocity field, a function of time and place, moves all tokens: there is no mask to tell them."""
        return isinstance(self.mask, Full) or not self.attention
