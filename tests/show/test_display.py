"""Results in notebooks: headline, picture and dataset; datasets that are no results are shown by xarray alone."""

import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.show.runs.notebooks import html_of


@pytest.fixture(scope="module")
def run():
    flow = af.SphereAttention(af.Head.identity(2))
    return af.simulate(flow, np.eye(2), np.linspace(0, 20, 9), progress=False)


def test_a_run_is_displayed_as_headline_picture_and_dataset(run):
    shown = af.display(run)
    page = shown._repr_html_()
    assert shown.picture.startswith(b"\x89PNG")
    assert "one cluster at t = 20" in page
    assert "data:image/png;base64," in page
    assert run._repr_html_()[:40] in page
    assert repr(shown) == f"{shown.headline}\n{run.attrs['outcome']}"


def test_every_kind_of_result_has_a_picture():
    flow = af.SphereAttention(af.Head.identity(2), af.Softmax(beta=9.0), af.masks.causal)
    streamed = af.stream(flow, af.initial.circle(3, rng=0), [0.0, 1.0, 10.0], progress=False)
    merged = af.coalesce(af.SphereAttention(af.Head.identity(2)), np.eye(2), progress=False)
    assert "3 tokens on the circle" in af.display(streamed).headline
    assert "1 merge" in af.display(merged).headline


def test_texts_of_a_file_are_escaped(run):
    page = af.display(run.assign_attrs(outcome="<script>alert(1)</script>"))._repr_html_()
    assert "&lt;script&gt;" in page
    assert "<script>alert(1)" not in page.split("<details>")[0]


def test_other_datasets_are_refused():
    with pytest.raises(InputError, match="`run`"):
        af.display(xr.Dataset())


def test_a_run_at_the_end_of_a_cell_is_its_picture_above_the_table_of_xarray(run):
    page = html_of(run)
    picture, table = page.index("data:image/png;base64,"), page.index("xr-header")
    assert picture < table
    assert "<details><summary>dataset" not in page


def test_other_datasets_and_parts_of_runs_are_shown_by_xarray(run):
    for dataset in (xr.Dataset({"a": ("x", [1.0])}), run.isel(time=3), run[["tokens"]].drop_attrs()):
        page = html_of(dataset)
        assert "data:image/png" not in page
        assert "xr-header" in page


IN_A_SHELL = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_cell("import attnflow as af")
import sys
assert not {"jax", "numpy", "matplotlib", "xarray"} & set(sys.modules), "importing attnflow loads libraries"
cell = "af.simulate(af.SphereAttention(af.Head.identity(2)), [[1.0, 0.0], [0.0, 1.0]], [0.0, 1.0, 2.0], progress=False)"
run = shell.run_cell(cell).result
data, _ = shell.display_formatter.format(run, include={"text/html"})
assert "data:image/png" in data["text/html"], data["text/html"][:200]
"""


def test_importing_attnflow_inside_ipython_registers_the_picture():
    pytest.importorskip("IPython")
    done = subprocess.run([sys.executable, "-c", IN_A_SHELL], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
