"""Completion by the shell: right names, in a process that imports neither JAX nor NumPy."""

import os
import subprocess
import sys

import matplotlib
import pytest

import attnflow as af
from attnflow.cli import completion
from attnflow.cli.picture_options import PICTURE_OPTIONS
from attnflow.cli.scenario_options import FURTHER_WORDS
from attnflow.figures import catalogue as figures
from attnflow.models.registry import PACKAGED
from attnflow.show.parts.page import SIZES, STYLES
from attnflow.sweeps.measures import ALL_MEASURES
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
        ("attnflow list fig", ["figures"]),
        ("attnflow list meanfield-z", ["meanfield-zonal"]),
        ("attnflow run polytope --spacing l", ["linear", "log"]),
        ("attnflow show run.zarr --style d", ["dark"]),
        ("attnflow steer --from sphere --to cir", ["circle"]),
        ("attnflow sweep --from renyi --observe cl", ["close-pairs", "clusters"]),
        ("attnflow heads mini", ["minilm"]),
    ],
)
def test_names_are_completed_without_heavy_libraries(line, names):
    assert completed(line) == names


def test_the_written_names_are_those_of_the_catalogues():
    assert list(figures.catalogue()) == completion.FIGURES
    assert list(statements.catalogue()) == completion.STATEMENTS
    assert list(PACKAGED) == completion.MODELS
    assert set(ALL_MEASURES.words) == set(completion.MEASURES)
    assert set(completion.PALETTES) <= set(matplotlib.colormaps)


def test_every_word_that_is_completed_is_accepted():
    assert list(completed_by(PICTURE_OPTIONS["size"])) == list(SIZES)
    assert list(completed_by(PICTURE_OPTIONS["style"])) == list(STYLES)
    for name, complete in FURTHER_WORDS.items():
        for word in complete(""):
            assert len(af.scenario("polytope", n=3, **{name: word}).tokens) == 3


def completed_by(annotation):
    """All words that the option of an annotation is completed to."""
    return annotation.__metadata__[0].autocompletion("")
