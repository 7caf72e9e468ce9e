"""Every example in a docstring runs and shows what it says."""

import doctest
import importlib
import pkgutil

import pytest

import attnflow

NATIVE = "attnflow.model.native._kernels"  # a library for XLA, not a module
FOUND = [module.name for module in pkgutil.walk_packages(attnflow.__path__, "attnflow.")]
MODULES = ["attnflow", *(name for name in FOUND if name != NATIVE)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples():
    finder = doctest.DocTestFinder()
    counts = [len(test.examples) for name in MODULES for test in finder.find(importlib.import_module(name))]
    assert sum(counts) > 20
