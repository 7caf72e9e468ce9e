"""Completion by the shell: right names, in a process that imports neither JAX nor NumPy."""

import os
import subprocess
import sys

import pytest

from attnflow.cli import completion
from attnflow.figures import catalogue as figures
from attnflow.theorems import catalogue as statements

PROGRAM = """
import sys
sys.argv = ["attnflow"]
from attnflow.cli.process import run
try:
    run()
finally:
    print({"jax", "numpy", "xarray"} & set(sys.modules) or "light", file=sys.stderr)
"""


def completed(line):
    """What bash gets for the last word of a line."""
    asked = {"_ATTNFLOW_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=os.environ | asked, capture_output=True, text=True)
    assert done.stderr.strip() == "light"
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("attnflow str", ["stream"]),
        ("attnflow run polyt", ["polytope", "polytope-3d"]),
        ("attnflow run polytope --n abc --mask cau", ["causal"]),
        ("attnflow reproduce boolean-1", ["boolean-1d"]),
        ("attnflow verify wendel polytope-t", ["polytope-times-hyperplane"]),
    ],
)
def test_names_are_completed_without_heavy_libraries(line, names):
    assert completed(line) == names


def test_the_written_names_are_those_of_the_catalogues():
    assert list(figures.catalogue()) == completion.FIGURES
    assert list(statements.catalogue()) == completion.STATEMENTS
