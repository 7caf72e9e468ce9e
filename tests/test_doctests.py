"""Every example in a docstring runs and shows what it says."""

import doctest
import importlib
import inspect
import pkgutil
import re

import pytest
from tests.helpers import tiny_models

import attnflow

NATIVE = "attnflow.model.native._kernels"  # a library for XLA, not a module
FOUND = [module.name for module in pkgutil.walk_packages(attnflow.__path__, "attnflow.")]
ABOUT_MODELS = re.compile(r"attnflow\.(models|trained|show\.trained)\b")
MODULES = ["attnflow", *(name for name in FOUND if name != NATIVE)]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A directory with a small model, the `folder` of examples about trained models; `model` is the model itself."""
    return tiny_models.write("bert", tmp_path_factory.mktemp("models") / "bert")


class DecoratedToo(doctest.DocTestFinder):
    """Finder that looks at what a decorator wraps; the usual one leaves decorated functions out."""

    def _from_module(self, module, object):
        return super()._from_module(module, inspect.unwrap(object) if callable(object) else object)


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name, checkpoint):
    given = {"folder": checkpoint, "model": attnflow.models.load(checkpoint)} if ABOUT_MODELS.match(name) else {}
    runner = doctest.DocTestRunner()
    examples = DecoratedToo().find(importlib.import_module(name), extraglobs=given)
    assert sum(runner.run(example).failed for example in examples) == 0


def test_there_are_examples():
    finder = DecoratedToo()
    counts = [len(test.examples) for name in MODULES for test in finder.find(importlib.import_module(name))]
    assert sum(counts) > 20
