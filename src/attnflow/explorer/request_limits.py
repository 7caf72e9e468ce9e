"""What a page may ask for: nothing so large that one visitor takes the computer away from the others.

Compiled code cannot be interrupted within a step, so that one step's work is bounded here, before anything is built.
"""

import math

from attnflow._common.checks import InputError
from attnflow.experiments import specs
from attnflow.experiments.scenarios import Settings

MOST_TOKENS = 10_000
MOST_DIMENSIONS = 512
MOST_NUMBERS = 100_000  # n d: a frame is four bytes for each
MOST_HEADS = 16
MOST_SAVES = 10_000
MOST_MASKS = 4  # joined with a plus
MOST_ITERATIONS = 199  # of Sinkhorn: the program has each of them
MOST_WORK = 10**9  # multiplications of one velocity: about a second
MOST_STIFF_NUMBERS = 600  # n d of an implicit solver, which has a matrix of their square
MOST_FIXED_STEPS = 10**6  # to the end of the run
MOST_REDRAWS = 10**4
MOST_COALESCING_TOKENS = 1_000

COUNTS = {"n": MOST_TOKENS, "d": MOST_DIMENSIONS, "heads": MOST_HEADS, "saves": MOST_SAVES}
FROM_FILES = ("value", "query_key", "mask", "start")
WORDS = (*FROM_FILES, "attention", "normalisation", "solver")


def require_allowed(settings: Settings, coalesces: bool = False) -> None:
    """Settings that the explorer can show to several visitors at a time, and that name no file of this computer."""
    for name, most in COUNTS.items():
        _require_at_most(getattr(settings, name), most, f"`{name}`")
    _require_no_file(settings)
    _require_finite_words(settings)
    _require_at_most(settings.mask.count("+") + 1, MOST_MASKS, "The number of masks joined in `mask`")
    _require_at_most(settings.n * settings.d, MOST_NUMBERS, "n times d")
    _require_at_most(_iterations(settings), MOST_ITERATIONS, "The number of iterations in `attention`")
    work = settings.n**2 * max(settings.d, 8) * settings.heads * _iterations(settings)
    _require_at_most(work, MOST_WORK, "The work of one step (n^2 times d, heads and iterations)")
    if settings.solver == "kvaerno5":
        _require_at_most(settings.n * settings.d, MOST_STIFF_NUMBERS, "n times d with the solver kvaerno5")
    if coalesces:
        _require_at_most(settings.n, MOST_COALESCING_TOKENS, "`n` of a run through all metastable states")
    _require_seen_end(settings)


def _require_seen_end(settings: Settings) -> None:
    """Steps or periods so short that a run would never get to its end are a misunderstanding."""
    if settings.redraw is not None and settings.redraw > 0:
        _require_at_most(settings.end / settings.redraw, MOST_REDRAWS, "The number of redrawings, `end` over `redraw`,")
    name, numbers = specs.split(settings.solver or "tsit5", "solver")
    if name not in specs.ADAPTIVE and numbers and numbers[0] > 0:
        _require_at_most(settings.end / numbers[0], MOST_FIXED_STEPS, "The number of steps to `end`")


def _require_no_file(settings: Settings) -> None:
    for name in FROM_FILES:
        if any(specs.is_file(part) for part in getattr(settings, name).split("+")):
            raise InputError(
                f"`{name}` names a file, which the page may not read. Type the numbers, or use `attnflow run`."
            )


def _require_finite_words(settings: Settings) -> None:
    parts = [(name, getattr(settings, name) or "") for name in WORDS if name != "mask"]
    parts += [("mask", part) for part in settings.mask.split("+")]
    for name, word in parts:
        if not all(math.isfinite(number) for number in specs.split(word, name)[1]):
            raise InputError(f"The numbers in `{name}` must be finite, but it is {word[:60]!r}.")


def _iterations(settings: Settings) -> float:
    """How often Sinkhorn's attention divides rows or columns; 1 for all others."""
    name, numbers = specs.split(settings.attention, "attention")
    return max([1.0, *numbers]) if name == "sinkhorn" else 1.0


def _require_at_most(found: float, most: float, what: str) -> None:
    if found > most:
        shown = f"{found:,}" if isinstance(found, int) else f"{found:,.6g}"
        raise InputError(
            f"{what} must be at most {most:,} on the page, but it is {shown}. Take less, or use `attnflow run`."
        )
