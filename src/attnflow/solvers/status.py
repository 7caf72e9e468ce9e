"""The status of a run: running, or one of the ways in which it has ended."""

import enum


class Status(enum.IntEnum):
    """Status of a run; `results.outcome` has the sentences."""

    RUNNING = 0
    NOT_FINITE = 1
    STEP_TOO_SMALL = 2
    REACHED = -1
    OUT_OF_TIME = -2
    INTERRUPTED = -3
    OUT_OF_STEPS = -4
    ONE_CLUSTER = -5
    """A run of `coalesce` has one cluster left."""
    AT_REST = -6
    """A run of `coalesce` has several clusters left, at an equilibrium."""
    ZERO_LENGTH = -7
    """A run of `simulate` has a token of length zero, which has no direction: the equation ends."""
    UNRESOLVED = -8
    """A run of `mean_field.evolve` has a density that is too narrow for the number of modes."""


FIRST_STOP = 10  # stopping condition number i ends a run with the status FIRST_STOP + i
