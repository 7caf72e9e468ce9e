"""Limits of what a page may ask for, so that one viewer leaves computing time to the others.

Compiled code cannot be interrupted within a step, so that the work of one step is bounded before a model is built.
"""

import math

from attnflow._common.checks import InputError
from attnflow.experiments import specs
from attnflow.experiments.scenarios import Settings
from attnflow.experiments.vocabulary import ADAPTIVE_SOLVERS, SETTINGS, is_file
from attnflow.explorer.prompt_scenarios import SET_BY_MODEL, PromptSettings

MAX_NUMBERS = 100_000  # n d; a frame has four bytes for each

COUNTS = {"n": 10_000, "d": 512, "heads": 16, "saves": 10_000}  # largest values of counted settings
FILE_SETTINGS = [name for name, vocabulary in SETTINGS.items() if vocabulary.reads_files]


def require_allowed(settings: Settings, coalesces: bool = False) -> None:
    """Raise InputError for settings that are too large for the page, or that name a file of this computer."""
    for name, limit in COUNTS.items():
        if not (isinstance(settings, PromptSettings) and name in SET_BY_MODEL):
            _require_at_most(getattr(settings, name), limit, f"`{name}`")
    _require_no_file(settings)
    _require_finite_numbers(settings)
    _require_at_most(settings.mask.count("+") + 1, 4, "The number of masks joined in `mask`")
    _require_at_most(settings.n * settings.d, MAX_NUMBERS, "n times d")
    # Every iteration is a part of the compiled program.
    _require_at_most(_iterations(settings), 199, "The number of iterations in `attention`")
    work = settings.n**2 * max(settings.d, 8) * settings.heads * _iterations(settings)
    # 10^9 multiplications take about a second.
    _require_at_most(work, 10**9, "The work of one step (n^2 times d, heads and iterations)")
    if settings.solver == "kvaerno5":
        # An implicit step solves a system with (n d)^2 entries.
        _require_at_most(settings.n * settings.d, 600, "n times d with the solver kvaerno5")
    if coalesces:
        _require_at_most(settings.n, 1_000, "`n` of a run through all metastable states")
        # The number of parts of a quadrature grows with beta.
        _require_at_most(abs(settings.beta), 10**6, "The size of `beta` of a run through all metastable states")
    _require_reachable_end(settings)


def _require_reachable_end(settings: Settings) -> None:
    """Bound the number of fixed steps and of redrawn weights up to the end of the run."""
    if settings.redraw is not None and settings.redraw > 0:
        _require_at_most(settings.end / settings.redraw, 10**4, "The number of redrawings, `end` over `redraw`,")
    name, numbers = specs.split(settings.solver or "tsit5", "solver")
    if name not in ADAPTIVE_SOLVERS and numbers and numbers[0] > 0:
        _require_at_most(settings.end / numbers[0], 10**6, "The number of steps to `end`")


def _require_no_file(settings: Settings) -> None:
    for name in FILE_SETTINGS:
        if any(is_file(part) for part in getattr(settings, name).split("+")):
            raise InputError(
                f"`{name}` names a file, which the page may not read. Type the numbers, or use `attnflow run`."
            )


def _require_finite_numbers(settings: Settings) -> None:
    parts = [(name, getattr(settings, name) or "") for name in SETTINGS if name != "mask"]
    parts += [("mask", part) for part in settings.mask.split("+")]
    for name, word in parts:
        if not all(math.isfinite(number) for number in specs.split(word, name)[1]):
            raise InputError(f"The numbers in `{name}` must be finite, but it is {word[:60]!r}.")


def _iterations(settings: Settings) -> float:
    """Number of divisions of rows or columns in Sinkhorn attention; 1 for other attention."""
    name, numbers = specs.split(settings.attention, "attention")
    return max([1.0, *numbers]) if name == "sinkhorn" else 1.0


def _require_at_most(value: float, limit: float, what: str) -> None:
    if value > limit:
        shown = f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
        raise InputError(
            f"{what} must be at most {limit:,} on the page, but it is {shown}. Choose less, or use `attnflow run`."
        )
