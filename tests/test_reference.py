"""The reference: every public name says in a sentence what it is, explains its parameters and has an example.

`tests/test_doctests.py` runs the examples.
"""

import ast
import contextlib
import doctest
import importlib
import inspect
import re
import sys
import textwrap
from functools import reduce
from itertools import pairwise
from pathlib import Path
from types import FunctionType

import pytest

import attnflow as af
from attnflow._common.module import Module
from attnflow.experiments.options import SCENARIO_OPTIONS

# Classes that users do not make themselves, and where their arguments are explained.
MADE_ELSEWHERE = {"models.Model": "by `models.load`"}

# Methods and properties that the package calls, not its users: a solver, an attention rule, a fast sum or a check.
CALLED_BY_SOLVERS = {
    *("at", "jumps", "dimension", "rotation", "scaled_output", "output_lengths"),
    *("project_values", "project_output", "log_numerators", "log_weights", "sweeps"),
    *("require_layer", "require_depth", "require_unembedding"),
}


def public_objects():
    """Functions and classes that users call, by name; masks such as `masks.causal` are objects, without arguments."""
    for name in af.__all__:
        value = getattr(af, name)
        members = {f"{name}.{key}": getattr(value, key) for key in value.__all__} if inspect.ismodule(value) else {}
        yield from ((key, one) for key, one in (members or {name: value}).items() if is_called(one))


def is_called(thing):
    return callable(thing) and not isinstance(thing, Module)


PUBLIC = dict(public_objects())
CLASSES = {name: one for name, one in PUBLIC.items() if inspect.isclass(one)}
# Of figures the parameters and their values are in a sentence of each docstring, which `tests/figures` checks.
WITH_PARAMETERS = {name: one for name, one in PUBLIC.items() if not name.startswith("figures.")}


def own_classes(thing):
    """The class and its bases within the package; empty for functions."""
    bases = thing.__mro__ if inspect.isclass(thing) else ()
    return [base for base in bases if base.__module__.startswith("attnflow")]


def examples(docstring):
    return doctest.DocTestParser().get_examples(docstring or "")


def shows_a_result(docstring):
    return any(example.want for example in examples(docstring))


def without_examples(docstring):
    """The sentences of a docstring: lines of code and what they print are left out."""
    shown = {line.strip() for one in examples(docstring) for line in (one.source + one.want).splitlines()}
    lines = [line.strip().removeprefix(">>> ").removeprefix("... ") for line in docstring.splitlines()]
    return "\n".join(line for line in lines if line not in shown)


def explained_attributes(thing):
    """Fields of a class with a docstring of their own."""
    found = set()
    for base in own_classes(thing):
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0].body
        for field, text in pairwise(body):
            is_text = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
            if isinstance(field, ast.AnnAssign) and is_text:
                found.add(field.target.id)
    return found


def unexplained(thing, module_text=""):
    """Parameters that neither the text of the docstring nor a docstring of an attribute names."""
    texts = [inspect.getdoc(one) or "" for one in own_classes(thing) or [thing]]
    sentences = "\n".join(map(without_examples, [*texts, module_text]))
    named = explained_attributes(thing) | set(re.findall(r"\w+", sentences))
    return [name for name in inspect.signature(inspect.unwrap(thing)).parameters if name not in named]


def module_text(name, thing):
    """The docstring of the public module whose page a name stands on; names of the package itself have none."""
    return sys.modules[thing.__module__].__doc__ or "" if "." in name else ""


def methods(thing):
    """Public methods and properties of a class within the package, by name."""
    for base in own_classes(thing):
        for name, member in vars(base).items():
            inner = (
                getattr(member, "__func__", None) or getattr(member, "fget", None) or getattr(member, "func", member)
            )
            inner = getattr(inner, "method", inner)  # of equinox
            if isinstance(inner, FunctionType) and not name.startswith("_"):
                yield name, inspect.getdoc(inner) or ""


def is_extension_point(thing, name):
    """Whether an abstract base has the method: what its docstring says is for writers of further classes."""
    return any(base.__name__.startswith("Abstract") and name in vars(base) for base in own_classes(thing))


def methods_without_example(thing):
    """Methods and properties for users that neither an example of their own nor one of the class shows."""
    shown = "\n".join(one.source for base in own_classes(thing) for one in examples(inspect.getdoc(base)))
    return [
        name
        for name, text in methods(thing)
        if name not in CALLED_BY_SOLVERS
        and not is_extension_point(thing, name)
        and not examples(text)
        and f".{name}" not in shown
    ]


def test_first_lines_are_sentences():
    first = {name: (inspect.getdoc(one) or "").split("\n\n")[0] for name, one in PUBLIC.items()}
    assert {name: line for name, line in first.items() if "\n" in line or not line.endswith((".", ":"))} == {}


def test_every_public_name_has_an_example_with_a_result():
    assert [name for name, one in PUBLIC.items() if not examples(one.__doc__)] == []
    assert [name for name, one in WITH_PARAMETERS.items() if not shows_a_result(one.__doc__)] == []


def test_every_parameter_is_explained():
    found = {name: unexplained(one, module_text(name, one)) for name, one in WITH_PARAMETERS.items()}
    found["scenarios.Settings"] = [name for name in found["scenarios.Settings"] if name not in SCENARIO_OPTIONS]
    assert {name: missing for name, missing in found.items() if missing and name not in MADE_ELSEWHERE} == {}


@pytest.mark.parametrize("name", CLASSES)
def test_every_method_for_users_has_a_sentence_and_an_example(name):
    assert [method for method, text in methods(CLASSES[name]) if not text] == []
    assert methods_without_example(CLASSES[name]) == []


ROOT = Path(__file__).parents[1]
TEXTS = [*(ROOT / "src").rglob("*.py"), *ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/*/*.md")]
NAME = re.compile(r"`((?:attnflow|af)\.[\w.]*\w)\b(?:\(|`)")


def does_exist(name):
    """Whether a dotted name, such as `af.clusters.count`, leads to something."""
    parts = name.split(".")[1:]
    for count in range(len(parts), -1, -1):
        with contextlib.suppress(ImportError, AttributeError):
            module = importlib.import_module(".".join(["attnflow", *parts[:count]]))
            reduce(getattr, parts[count:], module)
            return True
    return False


def test_names_of_the_package_in_texts_exist():
    named = {name for path in TEXTS for name in NAME.findall(path.read_text("utf-8"))}
    assert len(named) > 50
    assert [name for name in sorted(named) if not does_exist(name)] == []
    assert not does_exist("af.clusters.cuont")
    assert not does_exist("attnflow.theorems.atlas.atlas")


def test_every_exception_is_used():
    names = {method for one in CLASSES.values() for method, _ in methods(one)}
    assert names >= CALLED_BY_SOLVERS
    assert set(MADE_ELSEWHERE) <= set(CLASSES)


def test_what_is_missing_is_found():
    def half(width, height):
        """The area below `width`.

        Examples
        --------
        >>> height = 3
        """

    assert unexplained(half) == ["height"]
    assert unexplained(half, "`height` is a number.") == []
    assert not shows_a_result(half.__doc__)
    assert "at" in dict(methods(af.PiecewiseHead))
    assert is_extension_point(af.Euler, "move")
    assert not is_extension_point(af.Head, "identity")
