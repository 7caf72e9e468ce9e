"""The sources of the documentation: pages that are linked, code that names what exists, commands, citations.

`make -C docs html` executes the code; here it is only read, which takes no time.
"""

import ast
import importlib.util
import re
from functools import reduce
from pathlib import Path
from types import ModuleType

import matplotlib
import pytest
import typer

import attnflow
from attnflow.cli.app import app
from attnflow.experiments.catalogue import CATALOGUE
from attnflow.experiments.control_scenarios import CONTROLS
from attnflow.experiments.law_scenarios import LAWS
from attnflow.figures.catalogue import catalogue as figures
from attnflow.theorems.catalogue import FAMILIES
from attnflow.theorems.catalogue import catalogue as statements

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if not {"_build", "generated"} & set(path.parts))
CELLS = [
    pytest.param(cell, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, cell in enumerate(re.findall(r"```\{code-cell\} python\n(.*?)```", page.read_text(), re.S))
]


def listed(page: Path) -> list[str]:
    tables = re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), re.S)
    return [line for table in tables for line in table.split() if line and not line.startswith(":") and line != "1"]


def test_every_page_is_in_a_table_of_contents():
    named = {(page.parent / f"{entry}.md").resolve() for page in PAGES for entry in listed(page)}
    assert {page.resolve() for page in PAGES} - named == {(DOCS / "index.md").resolve()}


def test_every_listed_page_exists_or_is_generated():
    for page in PAGES:
        for entry in listed(page):
            path = (page.parent / f"{entry}.md").resolve()
            assert path.exists() or "generated" in path.parts, f"{page.name} lists {entry}"


@pytest.mark.parametrize("cell", CELLS)
def test_code_names_what_exists(cell):
    for node in ast.walk(ast.parse(cell)):
        chain = _chain(node)
        assert not chain or chain[0] != "af" or reduce(getattr, chain[1:], attnflow) is not None


def _chain(node: ast.AST) -> list[str]:
    """The names a, b, c of an expression a.b.c; empty for other nodes."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute) and (before := _chain(node.value)):
        return [*before, node.attr]
    return []


def test_the_check_of_names_notices_a_wrong_one():
    chain = next(filter(lambda names: len(names) == 3, map(_chain, ast.walk(ast.parse("af.clusters.cuont(run)")))))
    with pytest.raises(AttributeError):
        reduce(getattr, chain[1:], attnflow)


def test_commands_of_the_pages_exist():
    known = set(typer.main.get_command(app).commands) | {"--help", "--version", "NAME"}
    for page in PAGES:
        for word in re.findall(r"`attnflow ([a-z][\w-]*)|\$ attnflow ([a-z][\w-]*)", page.read_text()):
            assert "".join(word) in known, f"{page.name}: attnflow {''.join(word)}"


def test_citations_are_in_the_bibliography():
    entries = set(re.findall(r"^@\w+\{([^,]+),", (DOCS / "references.bib").read_text(), re.M))
    cited = {
        key for page in PAGES for keys in re.findall(r"\{cite\}`([^`]+)`", page.read_text()) for key in keys.split(",")
    }
    assert cited
    assert cited <= entries


def test_every_family_of_statements_has_its_part_of_the_theory():
    text = "".join(page.read_text() for page in (DOCS / "theory").glob("*.md"))
    for family in FAMILIES:
        assert f"generated/theory/{family}.txt" in text


def test_every_family_of_statements_has_a_picture():
    tree = ast.parse((DOCS / "extensions" / "theory_pictures.py").read_text("utf-8"))
    tables = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    assert sorted([*tables["STATEMENTS"], *tables["FIGURES"], *tables["DRAWN_BY_PAGES"]]) == sorted(FAMILIES)
    assert set(tables["STATEMENTS"].values()) <= set(statements())
    assert set(tables["FIGURES"].values()) <= set(figures())


def script(path: Path) -> ModuleType:
    """The module of a file that is in no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


DOCUMENTS = [*PAGES, *(DOCS.parent / name for name in ("README.md", "CHANGELOG.md", "SECURITY.md", "paper.md"))]
ARXIV = re.compile(r"\d{2}(0[1-9]|1[0-2])\.\d{5}")


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.name)
def test_links_have_the_form_of_links(page):
    text = page.read_text("utf-8")
    external = re.findall(r"https?://[^\s)>\"'`]+", text)
    assert [link for link in external if not re.fullmatch(r"https://[\w.-]+\.\w+(/[\w./%#~+-]*)?", link)] == []
    numbers = re.findall(r"arxiv\.org/abs/([\w./]+)", text)
    assert [number for number in numbers if not ARXIV.fullmatch(number)] == []
    internal = re.findall(r"\]\(([^)#\s]+\.(?:md|png|bib))\)", text)
    assert [link for link in internal if "generated/" not in link and not (page.parent / link).exists()] == []


def test_papers_of_the_bibliographies_have_numbers_of_arxiv():
    for name in ("docs/references.bib", "paper.bib"):
        numbers = re.findall(r"eprint=\{([^}]*)\}", (DOCS.parent / name).read_text("utf-8"))
        assert numbers
        assert [number for number in numbers if not ARXIV.fullmatch(number)] == []


def test_papers_on_the_pages_are_in_the_bibliography():
    known = set(re.findall(r"eprint=\{([^}]*)\}", (DOCS / "references.bib").read_text("utf-8")))
    named = {number for page in PAGES for number in re.findall(r"arxiv\.org/abs/([\d.]+)", page.read_text("utf-8"))}
    of_abstract = {"2606.05140"}  # its pages say that only the abstract is used
    assert named
    assert named - of_abstract <= known


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("at the rate n^-1 sum_i |v_i|^2.", r"at the rate $n^{-1}$ $\sum _i$ $|v_i|^2$."),
        ("like e^(-t w) or e^{-4 sqrt(t+1)}", r"like $e^{-t w}$ or $e^{-4 \sqrt{t+1}}$"),
        ("Q^T K positive definite", r"$Q^{\top} K$ positive definite"),
        ("min <x_i, w> >= 0.5", r"min $\langle x_i, w \rangle$ ≥ 0.5"),
        ("between (beta + 1/2)^-1/2 and beta^-1/2.", r"between $(\beta  + 1/2)^{-1/2}$ and $\beta ^{-1/2}$."),
        ("weights e^{beta (<x, y> - 1)}.", r"weights $e^{\beta  (\langle x, y \rangle - 1)}$."),
        (
            "exp(c sqrt(beta)) and (sqrt(4 beta^2 + 1) - 1)",
            r"$\exp(c \sqrt{\beta })$ and ($\sqrt{4 \beta ^2 + 1}$ - 1)",
        ),
        ("angles up to pi; dE_k/dphi_k", r"angles up to $\pi$; $dE_k$/$d\phi _k$"),
        ("S = sum omega_n", r"S = $\sum$ $\omega _n$"),
        ("of [0, 1] and `x_1`", r"of \[0, 1\] and `x_1`"),
    ],
)
def test_statements_are_set_as_mathematics(text, expected):
    assert script(DOCS / "extensions" / "statement_mathematics.py").mathematics(text) == expected


@pytest.mark.parametrize("page", sorted((DOCS / "tutorials").glob("*.md")), ids=lambda page: page.stem)
def test_notebooks_have_no_marks_that_only_the_site_knows(page):
    module = script(DOCS / "extensions" / "plain_markdown.py")
    papers = module.numbers_of_papers((DOCS / "references.bib").read_text("utf-8"))
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    found = module.plain(text, page, papers)

    assert re.findall(r"\{\w+\}`|\]\([^)]*\.md|\[\]\(|download>", found) == []


def test_notebooks_name_papers_and_pages():
    module = script(DOCS / "extensions" / "plain_markdown.py")
    text = 'As in {cite}`one,two`. <a href="a.ipynb" download>Download</a>. See [](long_times.md), [here](sweeps.md#workers).'
    found = module.plain(text, DOCS / "tutorials" / "first_run.md", {"one": "2305.05465", "two": "2312.10794"})

    one, two = (f"[arXiv:{number}](https://arxiv.org/abs/{number})" for number in ("2305.05465", "2312.10794"))
    assert found == f'As in ({one}, {two}). See "Times of order exp(β)", here.'


@pytest.mark.parametrize("name", ["polytope", "staircase", "meanfield-line", "steer-sphere"])
def test_the_program_of_a_scenario_runs(name, tmp_path, monkeypatch):
    """One scenario of each kind."""
    monkeypatch.chdir(tmp_path)
    every = CATALOGUE | LAWS | CONTROLS
    with matplotlib.rc_context({"backend": "Agg"}):
        exec(script(DOCS / "extensions" / "scenario_code.py").code(every[name]), {})

    assert (tmp_path / f"{name}.png").stat().st_size > 1000


def test_links_that_lead_nowhere_are_found(tmp_path, capsys):
    (tmp_path / "one.html").write_text('<a href="two.html#here">two</a> <a href="https://arxiv.org">a paper</a>')
    (tmp_path / "two.html").write_text('<p id="here"></p> <a href="one.html">one</a>')
    assert script(DOCS / "check_links.py").main(tmp_path) == 0

    (tmp_path / "three.html").write_text('<img src="none.png"> <a href="two.html#there">two</a>')
    assert script(DOCS / "check_links.py").main(tmp_path) == 1
    assert capsys.readouterr().out.endswith("three.html: none.png\nthree.html: two.html#there\n")
