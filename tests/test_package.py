"""The package itself: names, imports, documents."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import attnflow as af

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", af.__all__)
def test_every_public_name_resolves_and_is_explained(name):
    assert getattr(af, name).__doc__


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


@pytest.mark.parametrize("path", sorted((ROOT / "src").rglob("*.py")), ids=lambda path: path.name)
def test_files_stay_short(path):
    assert len(path.read_text().splitlines()) <= 400


def functions_that_test(path):
    tree = ast.parse(path.read_text())
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test")]


@pytest.mark.parametrize("path", sorted(Path(__file__).parent.rglob("test_*.py")), ids=lambda path: path.name)
def test_every_test_asserts_something(path):
    for node in functions_that_test(path):
        text = ast.unparse(node)
        assert any(word in text for word in ("assert", "raises")), node.name


def test_no_public_function_has_the_name_of_a_module():
    """Importing the module would put it in the function's place."""
    folder = Path(af.__file__).parent
    modules = {path.stem for path in folder.glob("*.py")} | {path.name for path in folder.iterdir() if path.is_dir()}
    functions = {name for name in af.__all__ if not inspect.ismodule(getattr(af, name))}
    assert not modules & functions
