"""Random cases for a given time, and a table of what was found.

    python -m tests.hunt --minutes 30
    python -m tests.hunt --minutes 5 --part predictions --seed 1000

Parts: `oracle` (random flows against independent equations), `changes` (the same for perceptrons and for weights that change
in time), `sums` (fast sums within their tolerance), `predictions` (promises of `predict` against long runs),
`forgeries` (forged and cut runs against `verify`) and `commands` (documented command lines with other numbers). The
time is shared equally among the parts. Case number k is the same on every machine: a fault that names its seed is
repeated with `--part NAME --seed k --count 1`. The exit code is 1 where something was wrong.
"""

import argparse
import collections
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple


class Outcome(NamedTuple):
    """One checked case: what it was, the answer in a word, and whether that is wrong."""

    words: str
    answer: str
    is_wrong: bool
    error: float = 0.0
    """The largest error of numbers that were compared; of fast sums, over their tolerance."""


class Counted(NamedTuple):
    """A part of the hunt: the number of its cases, of each answer and of wrong ones, and the case with the largest error."""

    cases: int
    answers: collections.Counter
    wrong: int
    worst: Outcome


def _oracle(seed: int) -> Iterator[Outcome]:
    from tests.hunt.against_oracle import check

    found = check(seed)
    answer = f"off by {found.error:.2g} in its {found.place}" if found.is_wrong else "right"
    yield Outcome(found.words, answer, found.is_wrong, found.error)


def _changes(seed: int) -> Iterator[Outcome]:
    from tests.hunt.changing_flows import check

    found = check(seed)
    answer = f"off by {found.error:.2g} in its {found.place}" if found.is_wrong else "right"
    yield Outcome(found.words, answer, found.is_wrong, found.error)


def _sums(seed: int) -> Iterator[Outcome]:
    from tests.hunt.fast_sums import check

    share, words = check(seed)
    yield Outcome(words, "right" if share <= 1 else f"{share:.2g} of its tolerance", not share <= 1, share)


def _predictions(seed: int) -> Iterator[Outcome]:
    from tests.hunt.predictions import check

    for promise in check(seed):
        answer = promise.answer if promise.proved else f"{promise.answer} (conjecture)"
        yield Outcome(f"{promise.words}: {promise.result}", answer, promise.is_wrong)


def _forgeries(seed: int) -> Iterator[Outcome]:
    from tests.hunt.forgeries import check, controls

    if seed == 0:
        yield from (Outcome(f"honest run {name}", "nothing held", True) for name in controls())
    yield Outcome(*check(seed))


def _commands(seed: int) -> Iterator[Outcome]:
    from tests.hunt.command_lines import check

    yield Outcome(*check(seed))


PARTS: dict[str, Callable[[int], Iterator[Outcome]]] = {
    "oracle": _oracle,
    "changes": _changes,
    "sums": _sums,
    "predictions": _predictions,
    "forgeries": _forgeries,
    "commands": _commands,
}


def main() -> int:
    """Check cases one after the other and print a table; returns 1 where one was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--part", choices=PARTS, action="append", help="Only this part; may be repeated.")
    parser.add_argument("--seed", type=int, default=0, help="Number of the first case of each part.")
    parser.add_argument("--count", type=int, default=10**9, help="At most so many cases of each part.")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # random cases overflow and divide by zero, which their answers tell
    parts = asked.part or list(PARTS)
    counts = {part: _counted(part, asked.seed, asked.count, 60 * asked.minutes / len(parts)) for part in parts}
    for part, found in counts.items():
        told = ", ".join(f"{count} {answer}" for answer, count in sorted(found.answers.items()))
        print(
            f"{part:12} {found.cases:6} cases from seed {asked.seed}: {told or 'nothing to check'}; {found.wrong} wrong"
        )
        if found.worst.error > 0:
            print(f"{'':12} largest error {found.worst.error:.2g}: {found.worst.words}")
    return 1 if any(found.wrong for found in counts.values()) else 0


def _counted(part: str, first: int, most: int, seconds: float) -> Counted:
    """Check the cases of a part one after the other; wrong ones are printed."""
    end, answers, wrong, cases = time.monotonic() + seconds, collections.Counter(), 0, 0
    worst = Outcome("", "", False)
    for seed in range(first, first + most):
        if time.monotonic() > end:
            break
        cases += 1
        for outcome in PARTS[part](seed):
            answers[outcome.answer] += 1
            wrong += outcome.is_wrong
            worst = outcome if outcome.error > worst.error else worst
            if outcome.is_wrong:
                print(f"WRONG ({part}, {outcome.answer}): {outcome.words}", flush=True)
    return Counted(cases, answers, wrong, worst)


if __name__ == "__main__":
    sys.exit(main())
