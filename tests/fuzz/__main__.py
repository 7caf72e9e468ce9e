"""Random faults for a given time, and a report of what was wrong.

    python -m tests.fuzz --minutes 30 --part commands --seed 0

The same seed makes the same faults. Exit code 1 where something was wrong.
"""

import argparse
import collections
import importlib
import importlib.util
import sys
from typing import Any

SECONDS_PER_SLICE = 300.0  # after which what was found is shown
PARTS = ("commands", "files", "messages", "kills")


def main() -> int:
    """Run the parts one after the other, each for an equal share of the time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--part", choices=PARTS, action="append", help="May repeat. Default all.")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    present = [part for part in given.part or PARTS if importlib.util.find_spec(f"tests.fuzz.{part}")]
    wrong = 0
    for part in present:
        module = importlib.import_module(f"tests.fuzz.{part}")
        counts, failures = _in_slices(module, 60 * given.minutes / len(present), given.seed)
        print(f"{part}: {', '.join(f'{count} {name}' for name, count in counts.items())}; {len(failures)} wrong")
        for failure in failures:
            print(f"  {failure}", flush=True)
        wrong += len(failures)
    return 1 if wrong else 0


def _in_slices(module: Any, seconds: float, seed: int) -> tuple[dict[str, int], list[str]]:
    """Counts and failures of several calls, each with a seed of its own; counts are shown after each."""
    counts: collections.Counter[str] = collections.Counter()
    failures: list[str] = []
    for place in range(max(1, round(seconds / SECONDS_PER_SLICE))):
        more, found = module.run(min(seconds, SECONDS_PER_SLICE), seed + 1000 * place)
        counts.update(more)
        failures += found
        print(f"... {dict(counts)}", *found, sep="\n", file=sys.stderr, flush=True)
    return dict(counts), failures


if __name__ == "__main__":
    sys.exit(main())
