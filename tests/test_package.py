"""The package as a whole: public names, imports, layers, and the rules of the house."""

import ast
import configparser
import inspect
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import pytest

import attnflow as af
from attnflow.cli.citation import bibtex
from attnflow.figures import catalogue as figures
from attnflow.theorems import catalogue as statements

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "attnflow"
MODULES = sorted(SOURCE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))

# Files that may exceed 300 lines, with the reason.
LONG_FILES = {
    "theorems/limit_theorems.py": "a list: the theorems about limits, each with its hypotheses",
}

# A docstring that begins with one of these says neither what is returned nor what is done.
NO_STATEMENTS = {"Of", "Who", "Whom", "Those", "These", "Nobody", "Everybody", "Everyone", "Whose", "Where"}
# A docstring of an attribute names the attribute's quantity before it says when, where or in what units it is meant.
NO_QUANTITIES = NO_STATEMENTS | {"At", "When", "As", "In", "On", "From"}
# A section with its title, up to the title of the next one or the end.
EXAMPLES = re.compile(r"^Examples\n-{8}\n.*?(?=^\w+\n-{3,}\n|\Z)", re.M | re.S)
PEOPLE = re.compile(r"\b(nobody|everybody|everyone|whoever|somebody|whom|runners?|walkers?|sprints?|journeys?)\b", re.I)


def trees(paths):
    """Every file with its syntax tree."""
    return [(path, ast.parse(path.read_text("utf-8"))) for path in paths]


def name_of(path):
    """The path below the package, for messages."""
    return path.relative_to(SOURCE).as_posix()


def contract():
    """The import contract."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    return parser


@pytest.mark.parametrize("package", [af, af.show, af.trained], ids=lambda package: package.__name__)
def test_every_public_name_resolves_and_is_explained(package):
    assert [name for name in package.__all__ if not getattr(package, name).__doc__] == []


def test_modules_list_their_public_names_and_tab_completion_shows_no_others():
    modules = {name: getattr(af, name) for name in af.__all__ if inspect.ismodule(getattr(af, name))}
    assert {name: dir(module) for name, module in modules.items()} == {
        name: sorted(module.__all__) for name, module in modules.items()
    }
    missing = [
        f"{name}.{word}" for name, module in modules.items() for word in module.__all__ if not hasattr(module, word)
    ]
    assert missing == []


def test_the_version_is_that_of_the_installation():
    assert af.__version__ == version("attnflow")
    assert (SOURCE / "py.typed").exists(), "type checkers read annotations only where this file is"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Softmin'"):
        _ = af.Softmin


def test_importing_the_package_is_free():
    program = "import sys, attnflow\nheavy = {'jax', 'numpy', 'matplotlib', 'xarray', 'dask', 'torch'} & set(sys.modules)\nassert not heavy, heavy"

    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert finished.returncode == 0, finished.stderr


def test_simulating_does_not_load_matplotlib():
    program = "import sys, attnflow as af\naf.simulate(af.EuclideanAttention(af.Head.identity(1)), [[1.0]], [0, 1])\nassert 'matplotlib' not in sys.modules"

    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert finished.returncode == 0, finished.stderr


def test_the_readme_example_runs(tmp_path, monkeypatch):
    text = (ROOT / "README.md").read_text()
    example = text.split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)

    exec(compile(example, "README.md", "exec"), {})

    assert (tmp_path / "run.png").exists()
    assert (tmp_path / "run.zarr").exists()


def test_the_readme_counts_statements_and_figures():
    text = (ROOT / "README.md").read_text()

    counts = [int(number) for number in re.findall(r"(\d+) (?:statements|figures) with", text)]
    assert counts == [len(statements.catalogue()), len(figures.catalogue())]


def test_the_citation_agrees_with_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / "CITATION.cff").read_text()
    facts = dict(re.findall(r'^(?:  - )?(\w[\w-]*): "?(.+?)"?$', text, re.MULTILINE))
    entry = bibtex()
    assert facts["version"] == project["version"]
    assert facts["abstract"] == project["description"]
    assert [facts["name"]] == [author["name"] for author in project["authors"]]
    assert facts["license"] == project["license"]
    assert facts["title"] == f"{project['name']}: self-attention dynamics"
    for text in (facts["title"], facts["name"], version("attnflow")):
        assert f"{{{text}}}" in entry
    # The installed version may be an older one.
    current = entry.replace(f"{{{version('attnflow')}}}", f"{{{project['version']}}}")
    assert f"```bibtex\n{current}\n```" in (ROOT / "README.md").read_text()


def test_files_named_in_the_documents_exist():
    """Paths such as `model/attention.py` and `tests/README.md` in ARCHITECTURE and CONTRIBUTING."""
    missing = []
    for document in ("ARCHITECTURE.md", "CONTRIBUTING.md"):
        for named in re.findall(r"`([\w/.]+\.(?:py|pyi|cpp|md))`", (ROOT / document).read_text()):
            places = [ROOT / named, SOURCE / named, *SOURCE.glob(f"*/{named}")]
            if not any(place.exists() for place in places):
                missing.append(f"{document}: {named}")
    assert missing == []


def test_the_top_level_has_only_packages():
    modules = [path.name for path in SOURCE.glob("*.py")]
    assert modules == ["__init__.py"]


def test_the_contract_has_at_most_ten_layers_and_no_exception():
    text = (ROOT / ".importlinter").read_text()
    layers = contract()["importlinter:contract:layers"]["layers"].strip().splitlines()
    named = {name.strip() for layer in layers for name in layer.split("|")}
    packages = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert len(layers) <= 10
    assert named == packages
    assert "ignore_imports" not in text


def test_no_class_name_is_used_twice():
    homes = defaultdict(set)
    for path, tree in trees(MODULES):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name].add(name_of(path))
    assert {name: sorted(places) for name, places in homes.items() if len(places) > 1} == {}


def lines_without_examples(path, tree):
    """The number of lines of a file; sections of examples in docstrings, which every public name has, are not counted."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module)]
    sections = [section for node in nodes for section in EXAMPLES.findall(ast.get_docstring(node) or "")]
    return len(path.read_text("utf-8").splitlines()) - sum(len(section.splitlines()) for section in sections)


def test_files_stay_short():
    long = {name_of(path): lines_without_examples(path, tree) for path, tree in trees(MODULES)}
    long = {name: lines for name, lines in long.items() if lines > 300}
    assert set(long) == set(LONG_FILES), long
    assert all(lines <= 400 for lines in long.values()), long


def docstrings_of_attributes(node):
    """Strings that follow an assignment in the body of a class or a module."""
    for before, after in pairwise(node.body):
        value = after.value if isinstance(after, ast.Expr) else None
        is_text = isinstance(value, ast.Constant) and isinstance(value.value, str)
        if isinstance(before, ast.Assign | ast.AnnAssign) and is_text:
            yield value.value


def docstrings(tree):
    """Docstrings of a file, each with the words with which it does not begin."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            yield ast.get_docstring(node) or "", NO_STATEMENTS
        if isinstance(node, ast.ClassDef | ast.Module):
            yield from ((text, NO_QUANTITIES) for text in docstrings_of_attributes(node))


def wrong_docstrings(tree):
    """First lines of docstrings without a statement, or about people."""
    return [
        text.splitlines()[0]
        for text, no_beginnings in docstrings(tree)
        if text and (text.split()[0].strip(",.:") in no_beginnings or PEOPLE.search(text))
    ]


def test_docstrings_say_what_is_returned_or_done():
    assert [f"{name_of(path)}: {line}" for path, tree in trees(MODULES) for line in wrong_docstrings(tree)] == []


def test_the_rule_sees_docstrings_of_attributes_and_of_async_functions():
    program = 'class A:\n    x: int\n    """Of rows."""\n    y = 1\n    """The rows."""\nasync def f():\n    """Where it is."""'
    assert wrong_docstrings(ast.parse(program)) == ["Of rows.", "Where it is."]


def test_no_attribute_of_a_flow_is_guessed():
    """`getattr(flow, ...)` with a default gave four different betas to flows without one."""
    guessed = re.compile(r"getattr\((\w+\.)?(flow|flow\.attention), *\"\w+\", ")
    assert [name_of(path) for path in MODULES if guessed.search(path.read_text())] == []


def functions_that_test(tree):
    """All test functions of a file."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return [node for node in ast.walk(tree) if isinstance(node, kinds) and node.name.startswith("test_")]


def asserts(function):
    """Whether a function has an `assert`, or calls `pytest.raises`, `pytest.warns` or a function named assert_..."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).split(".")[-1]
            if name in ("raises", "warns") or name.startswith("assert_"):
                return True
    return False


def test_every_test_asserts_something():
    silent = [
        f"{path.name}: {node.name}"
        for path, tree in trees(TESTS)
        for node in functions_that_test(tree)
        if not asserts(node)
    ]
    assert silent == []


def test_a_name_that_contains_assert_is_no_assertion():
    program = "def test_asserted():\n    asserted = raises\ndef test_b():\n    np.testing.assert_allclose(1, 1)"
    assert [asserts(node) for node in functions_that_test(ast.parse(program))] == [False, True]


def imported_tests(tree):
    """Tests and benchmarks that a file imports, as dotted names."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            names += [f"{node.module or ''}.{alias.name}".lstrip(".") for alias in node.names]
    return [name for name in names if re.match(r"benchmarks\b|(?!tests\.helpers\b)(\w+\.)*test_", name)]


def test_no_test_imports_another_test_or_a_benchmark():
    assert [f"{path.name}: {name}" for path, tree in trees(TESTS) for name in imported_tests(tree)] == []


@pytest.mark.parametrize(
    "line",
    [
        "from tests import test_package",
        "from tests.model import test_flows",
        "from tests.model.test_flows import start",
        "import tests.test_package",
        "from . import test_flows",
        "from benchmarks import speed",
    ],
)
def test_every_way_to_import_a_test_is_seen(line):
    assert imported_tests(ast.parse(line))
    assert not imported_tests(ast.parse("from tests.helpers.oracle import test_values"))


def test_tests_stand_in_the_tree_of_the_package():
    folders = {path.parent.relative_to(ROOT / "tests") for path in TESTS if path.name.startswith("test_")}
    assert [str(folder) for folder in folders if not (SOURCE / folder).is_dir()] == []


def test_no_public_function_has_the_name_of_a_package():
    """Importing the package would put it in the function's place."""
    packages = {path.name for path in SOURCE.iterdir() if path.is_dir()}
    functions = {name for name in af.__all__ if not inspect.ismodule(getattr(af, name))}
    assert not packages & functions
