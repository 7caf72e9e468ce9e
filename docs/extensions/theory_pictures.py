"""A picture for each family of statements: a run within the hypotheses beside one outside, or a gallery figure."""

import html
from pathlib import Path

from gallery import made_figure, picture_of
from generated import made, size_of_build

import attnflow as af
from attnflow.figures.catalogue import find as find_figure
from attnflow.theorems.catalogue import find
from attnflow.theorems.verdict import Verdict

# The statement whose example and control are drawn. Families about numbers, or about more than one run, have a figure.
STATEMENTS = {
    "euclidean": "polytope",
    "line": "boolean-limit",
    "eigendirections": "hyperplanes",
    "sphere": "hemisphere-rate",
    "circle": "fourier-growth",
    "metastable": "caps-hold",
    "causal": "identity-value",
    "causal_energy": "sequential-gradient",
    "causal_centres": "frozen-centres",
    "hardmax": "hardmax-limits",
    "layers": "layers-single-cluster",
}
FIGURES = {
    "equiangular": "phase-diagrams",
    "plateaus": "five-tokens",
    "centre_formulas": "force",
    "normalised": "normalisation-rates",
    "long_context": "long-context",
    "lost_in_middle": "lost-in-the-middle",
}
DRAWN_BY_PAGES = ("mean_field",)  # the page of the family is executed and has pictures of its own


def picture_part(source: Path, family: str) -> str:
    """The Markdown of the picture of a family; empty in a small build, and where the page has one."""
    if size_of_build() == "small" or family in DRAWN_BY_PAGES:
        return ""
    return _two_runs(source, STATEMENTS[family]) if family in STATEMENTS else _figure(source, FIGURES[family])


def _two_runs(source: Path, name: str) -> str:
    """The example and the control of a statement, side by side."""
    folder, statement = source / "_build" / "extra" / "theory", find(name)
    instances = {"example": statement.example(), "control": statement.control()}
    captions = {
        "example": f"Within the hypotheses of {name}.",
        "control": f"Outside. {_why_outside(statement.check_instance(instances['control']))}",
    }
    figures = []
    for kind, instance in instances.items():
        path = made(
            folder / f"{name}-{kind}.png",
            lambda path, instance=instance: af.show.trajectories(instance.simulate(), path, title=None),
        )
        caption = html.escape(captions[kind].replace("Q^T", "Qᵀ"))
        picture = f'<img src="{path.name}" alt="{caption}" loading="lazy">'
        figures.append(f"<figure>{picture}<figcaption>{caption}</figcaption></figure>")
    return f'```{{raw}} html\n<div class="pair">{"".join(figures)}</div>\n```'


def _why_outside(verdict: Verdict) -> str:
    failing = [hypothesis.says for hypothesis in verdict.hypotheses if not hypothesis.holds]
    return f"Not true of this run: {'; '.join(failing)}." if failing else verdict.explanation()


def _figure(source: Path, name: str) -> str:
    figure = find_figure(name)
    if (record := made_figure(source, figure, is_wanted=True)) is None:
        return ""
    picture = f'<img src="../figures/{picture_of(record)}" alt="{html.escape(figure.title)}" loading="lazy">'
    return f"```{{raw}} html\n{picture}\n```\n\n{figure.shows} [In the gallery](#figure-{name})."
