"""Processor seconds of `attnflow run polytope` with compiled programs kept from a first run: imports, run and picture.

    python -m benchmarks.start_up

Seconds depend on the machine, so that they are compared with those of the imports of JAX and matplotlib alone.
"""

import os
import resource
import subprocess
import sys
import tempfile

MAX_RATIO_TO_IMPORTS = 4.0  # this version takes 3.0 to 3.7 times the imports; version 0.1.0 took 4.5
IMPORTS = "import jax, matplotlib.figure"
COMMAND = "from attnflow.cli.app import main; main()"


def processor_seconds(*arguments: str, folder: str) -> float:
    """User and system seconds of a Python process with these arguments, in a folder with its own compiled programs."""
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": f"{folder}/compiled"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True, cwd=folder, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measure(repetitions: int = 3) -> tuple[float, float]:
    """The least seconds of the imports and of the command; the first repetition fills the caches and does not count."""
    with tempfile.TemporaryDirectory() as folder:
        pairs = [
            (
                processor_seconds("-c", IMPORTS, folder=folder),
                processor_seconds("-c", COMMAND, "run", "polytope", "--overwrite", folder=folder),
            )
            for _ in range(repetitions + 1)
        ]
    imports, commands = zip(*pairs[1:], strict=True)
    return min(imports), min(commands)


def test_a_run_takes_a_bounded_multiple_of_its_imports():
    """Twenty tokens in the plane: nearly all of the time is start-up."""
    imports, command = measure(repetitions=2)
    assert command < MAX_RATIO_TO_IMPORTS * imports


if __name__ == "__main__":
    imports, command = measure(repetitions=5)
    print(
        f"imports of JAX and matplotlib {imports:.2f} s, attnflow run polytope {command:.2f} s: {command / imports:.1f}"
    )
    assert command < MAX_RATIO_TO_IMPORTS * imports
