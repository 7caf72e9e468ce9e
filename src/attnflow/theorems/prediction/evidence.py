"""Evidence: the numbers by which a limit was recognised, written as clauses of a sentence."""

from collections.abc import Callable

from attnflow.theorems.prediction.limits import ObservedLimit, Quantity
from attnflow.theorems.prediction.observed_limits import LATE_SHARE

ON_LEADING_SPACE = (
    Quantity.SHARE_IN_LEADING_SPACE,
    Quantity.SHARE_OF_UNIFORM_TOKENS,
    Quantity.FROM_LEADING_SPACE,
)
SMALLEST_SHARE = 1e-5  # that is written as a number


def in_words(observed: ObservedLimit, is_sphere: bool) -> str:
    """The measured numbers as clauses.

    Examples
    --------
    >>> numbers = {Quantity.PLACES: 3.0, Quantity.LATE_MOVE: 0.004}
    >>> in_words(ObservedLimit("several-points", numbers), is_sphere=True)
    'tokens are in 3 places; in the last 20% of the time the fastest moved by 0.4% of the radius'
    """
    unit = "the radius" if is_sphere else "their first spread"
    numbers = observed.numbers
    is_whole = numbers.get(Quantity.SHARE_OF_UNIFORM_TOKENS) == 1 or numbers.get(Quantity.FROM_LEADING_SPACE) == 0
    # Where L is the whole space every token is in it.
    told = {name: value for name, value in numbers.items() if not (is_whole and name in ON_LEADING_SPACE)}
    return "; ".join(_CLAUSES[name](value, unit) for name, value in told.items())


def _percent(share: float) -> str:
    if share < SMALLEST_SHARE:
        return f"less than {100 * SMALLEST_SHARE:g}%"
    return f"{100 * share:.2g}%" if share < 1 else f"{100 * share:.0f}%"


def _late_move(move: float, unit: str) -> str:
    return f"in the last {100 * (1 - LATE_SHARE):.0f}% of the time the fastest moved by {_percent(move)} of {unit}"


def _places(count: float, _: str) -> str:
    return "tokens are in one place" if count == 1 else f"tokens are in {count:.0f} places"


def _groups(count: float, _: str) -> str:
    return "tokens are in one group" if count == 1 else f"tokens are in {count:.0f} parallel groups"


_CLAUSES: dict[str, Callable[[float, str], str]] = {
    Quantity.LARGEST_MOVE: lambda x, _: f"no token has moved by more than {x:.2g}",
    Quantity.LATE_MOVE: _late_move,
    Quantity.PLACES: _places,
    Quantity.HYPERPLANES: _groups,
    Quantity.WIDEST_GROUP: lambda x, unit: f"the widest group spans {_percent(x)} of {unit}",
    Quantity.VERTICES: lambda x, _: f"the hull has {x:.0f} corners",
    Quantity.RESIDUAL_OF_S: lambda x, _: f"tokens miss the set S of the theorem by at most {_percent(x)}",
    Quantity.SIZE_OF_X: lambda x, _: f"tokens have size {x:.3g}",
    Quantity.SIZE_OF_Z: lambda x, _: f"rescaled tokens have size {x:.3g}",
    Quantity.FIRST_SIZE: lambda x, _: f"at the start it was {x:.3g}",
    Quantity.POWER_OF_TIME: lambda x, _: f"it goes like t to the power {x:.2f}",
    Quantity.RATE: lambda x, _: f"it falls like e to the power -{x:.3g} t",
    Quantity.TURN: lambda x, _: f"between two saved times directions turn by {x:.2g}",
    Quantity.FROM_POLES: lambda x, _: f"the farthest token is {x:.2g} from the leading eigenvector's two ends",
    Quantity.SPREAD: lambda x, _: f"the farthest token is {x:.2g} from the first one",
    Quantity.FROM_FIRST_TOKEN: lambda x, _: f"they met {x:.2g} from where the first one started",
    Quantity.FROM_LEADING_SPACE: lambda x, _: f"that is {x:.2g} from the leading eigenspace L",
    Quantity.SHARE_IN_LEADING_SPACE: lambda x, _: (
        f"{_percent(x)} of their squared length is in the leading eigenspace L"
    ),
    Quantity.SHARE_IN_TURNING_SPACE: lambda x, _: f"{_percent(x)} of their squared length is in the plane that turns",
    Quantity.SHARE_OF_UNIFORM_TOKENS: lambda x, _: f"for uniform tokens it would be {_percent(x)}",
    Quantity.SHARE_OF_LOST_TIMES: lambda x, _: f"at {_percent(x)} of the times tokens are not finite",
}
