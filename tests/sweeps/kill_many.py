"""Kills of one sweep at many random moments: ``nice -n 19 python -m tests.sweeps.kill_many 200``."""

import sys
import tempfile
from pathlib import Path

import numpy as np
from tests.helpers.sweeping import KilledSweeps, assert_same


def main(wanted: int) -> None:
    """Kill sweeps until `wanted` kills have met one while it ran; each must end with the numbers of a whole one."""
    rng, met = np.random.default_rng(), 0
    with tempfile.TemporaryDirectory() as folder, KilledSweeps() as killed:
        longest = killed.seconds_undisturbed(Path(folder, "whole.zarr"))
        for number in range(wanted):
            store = Path(folder, f"killed-{number}.zarr")
            kills = killed.sweep(store, 20, rng, longest * rng.choice([0.1, 0.5, 1.0]))
            assert_same(Path(folder, "whole.zarr"), store)
            met += kills
            print(f"sweep {number + 1}: {kills} kills, {met} of {wanted} in all, the same numbers", flush=True)
            if met >= wanted:
                return


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
