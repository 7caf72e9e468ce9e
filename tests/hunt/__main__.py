"""Random cases for a given time, and a report of what was wrong.

    python -m tests.hunt --minutes 30 --first 0

Case number k is the same on every machine: a fault is repeated with `--first k --count 1`.
"""

import argparse
import sys
import time

import numpy as np
from tests.hunt.against_oracle import check


def main() -> int:
    """Check cases one after the other; returns 1 where one was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--first", type=int, default=0, help="Number of the first case.")
    parser.add_argument("--count", type=int, default=10**9, help="At most so many cases.")
    given = parser.parse_args()
    end, errors, wrong = time.monotonic() + 60 * given.minutes, [], []
    for seed in range(given.first, given.first + given.count):
        if time.monotonic() > end:
            break
        finding = check(seed)
        errors.append(finding.error)
        if finding.is_wrong:
            wrong.append(finding)
            print(f"WRONG by {finding.error:.2g} in its {finding.place}: {finding.words}", flush=True)
    print(f"{len(errors)} random flows against the oracle: {len(wrong)} wrong, largest error {np.max(errors):.2g}.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
