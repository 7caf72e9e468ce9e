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
    """Of `coalesce`: one cluster is left."""
    AT_REST = -6
    """Of `coalesce`: several clusters are left, at an equilibrium."""
    ZERO_LENGTH = -7
    """Of `simulate`: a token of length zero has no direction, and the equation ends."""
    UNRESOLVED = -8
    """Of `mean_field.evolve`: the density is too narrow for the number of modes."""


FIRST_STOP = 10  # stopping condition number i ends a run with the status FIRST_STOP + i
