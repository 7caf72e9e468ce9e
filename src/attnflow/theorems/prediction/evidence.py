"""Evidence: the numbers behind a verdict, said in words."""

from collections.abc import Callable

from attnflow.theorems.prediction.limits import LATE, Shown

OF_L = ("share in L", "of uniform tokens", "from L")
SMALLEST = 1e-5  # share that is written as a number
LAST = f"the last {100 * (1 - LATE):.0f}% of the time"


def in_words(shown: Shown, is_sphere: bool) -> str:
    """What was measured, as clauses.

    Examples
    --------
    >>> in_words(Shown("several-points", {"places": 3.0, "late move": 0.004}), is_sphere=True)
    'tokens are in 3 places; in the last 20% of the time the fastest moved by 0.4% of the radius'
    """
    unit = "the radius" if is_sphere else "their first spread"
    is_all = shown.numbers.get("of uniform tokens") == 1 or shown.numbers.get("from L") == 0
    # Where L is the whole space, to be in it says nothing.
    told = {name: value for name, value in shown.numbers.items() if not (is_all and name in OF_L)}
    return "; ".join(_CLAUSES[name](value, unit) for name, value in told.items())


def _percent(share: float) -> str:
    if share < SMALLEST:
        return f"less than {100 * SMALLEST:g}%"
    return f"{100 * share:.2g}%" if share < 1 else f"{100 * share:.0f}%"


def _places(count: float, _: str) -> str:
    return "tokens are in one place" if count == 1 else f"tokens are in {count:.0f} places"


# By the names that `theorems.limits` gives to its numbers.
_CLAUSES: dict[str, Callable[[float, str], str]] = {
    "largest move": lambda x, _: f"no token has moved by more than {x:.2g}",
    "late move": lambda x, unit: f"in {LAST} the fastest moved by {_percent(x)} of {unit}",
    "places": _places,
    "hyperplanes": lambda x, _: "tokens are in one group" if x == 1 else f"tokens are in {x:.0f} parallel groups",
    "widest": lambda x, unit: f"the widest group spans {_percent(x)} of {unit}",
    "vertices": lambda x, _: f"the hull has {x:.0f} corners",
    "residual of S": lambda x, _: f"tokens miss the places that the theorem allows by at most {_percent(x)}",
    "size of x": lambda x, _: f"tokens have size {x:.3g}",
    "size of z": lambda x, _: f"rescaled tokens have size {x:.3g}",
    "at the start": lambda x, _: f"at the start it was {x:.3g}",
    "power of t": lambda x, _: f"it goes like t to the power {x:.2f}",
    "turn from time to time": lambda x, _: f"between two moments directions turn by {x:.2g}",
    "farthest from +-xi": lambda x, _: f"the farthest token is {x:.2g} from the leading eigenvector's two ends",
    "spread": lambda x, _: f"the farthest token is {x:.2g} from the first one",
    "from x_1(0)": lambda x, _: f"they met {x:.2g} from where the first one started",
    "from L": lambda x, _: f"that is {x:.2g} from the leading eigenspace L",
    "share in L": lambda x, _: f"{_percent(x)} of their squared length is in the leading eigenspace L",
    "share in L'": lambda x, _: f"{_percent(x)} of their squared length is in the plane that turns",
    "of uniform tokens": lambda x, _: f"of evenly spread tokens it would be {_percent(x)}",
    "share of times without tokens": lambda x, _: f"at {_percent(x)} of the times tokens are no numbers any more",
}
