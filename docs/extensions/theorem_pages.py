"""The statements of `attnflow verify`, one generated part for each family, which the pages of the theory include.

Every statement is checked on its example and on its control when the site is built; a small build checks the first one
of each family, and names the others.
"""

import importlib
import inspect
from pathlib import Path

from generated import linked, size_of_build, write_page
from sphinx.application import Sphinx
from statement_mathematics import mathematics
from theory_pictures import picture_part

from attnflow.theorems.catalogue import FAMILIES, find
from attnflow.theorems.verify import Checked, verify_examples

ANSWERS = {"holds": "holds", "fails": "fails", "not_applicable": "not applicable", "undecided": "undecided"}


def setup(app: Sphinx) -> dict:
    """Write the parts before the sources are read."""
    app.connect("builder-inited", lambda app: write_parts(app.srcdir))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_parts(source: str) -> None:
    """Write the statements of every family into generated/theory."""
    modules = {family: importlib.import_module(f"attnflow.theorems.statements.{family}") for family in FAMILIES}
    listed = {family: module.STATEMENTS for family, module in modules.items()}
    names = [
        one.id for statements in listed.values() for one in statements[: 1 if size_of_build() == "small" else None]
    ]
    checked = {one.verdict.id: one for one in verify_examples(names)}
    for family, module in modules.items():
        sections = [
            _section(checked[one.id]) if one.id in checked else f"({one.id})=\n### `{one.id}`" for one in listed[family]
        ]
        introduction = inspect.cleandoc(module.__doc__ or "").partition("\n\n")[2] or module.__doc__ or ""
        parts = [mathematics(introduction), picture_part(Path(source), family), *sections]
        write_page(source, f"theory/{family}.txt", "\n\n".join(part for part in parts if part) + "\n")


def _section(checked: Checked) -> str:
    verdict, control = checked.verdict, find(checked.verdict.id).verify_control()
    status = "" if checked.proved else " *Not proved: a conjecture or an observation.*"
    hypotheses = "".join(f"- {mathematics(one.says)}\n" for one in verdict.hypotheses) or "- none\n"
    measured = verdict.measurement
    tolerance = "" if measured is None else f" The tolerance: {mathematics(measured.why)}."
    return (
        f"({verdict.id})=\n### `{verdict.id}`\n\n"
        f"{mathematics(verdict.statement)}{status}\n\nSource: {linked(mathematics(verdict.paper))}.\n\n"
        ":::{dropdown} Hypotheses, measurement and control\n"
        f"**Hypotheses**, as they are checked on a run:\n\n{hypotheses}\n"
        f"**On its example** it {_answer(verdict.verdict)}: {mathematics(verdict.explanation())}{tolerance}\n\n"
        f"**On its control**, outside the hypotheses or with a wrong value, it {_answer(control.verdict)}: "
        f"{mathematics(control.explanation())}\n:::"
    )


def _answer(answer: str) -> str:
    return answer if answer in ("holds", "fails") else f"is {ANSWERS[answer]}"
