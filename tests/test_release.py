"""What is built and published: the native library's options, systems and versions in the workflows, changelog, paper."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

from attnflow.figures.catalogue import catalogue as figures
from attnflow.theorems.catalogue import catalogue as statements

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
WORKFLOWS = {path.stem: path.read_text("utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml")}
SECTIONS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}  # of Keep a Changelog


def setup_script():
    """The module `setup.py`, which builds nothing when it is imported."""
    spec = importlib.util.spec_from_file_location("attnflow_setup", ROOT / "setup.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("system", "count"), [("linux", 1), ("darwin", 1), ("win32", 0)])
def test_the_library_is_built_except_on_windows(system, count, monkeypatch):
    monkeypatch.chdir(ROOT)

    assert len(setup_script().extensions(system, is_required=False)) == count


def test_the_library_has_all_sources_and_names_no_processor(monkeypatch):
    monkeypatch.chdir(ROOT)
    (library,) = setup_script().extensions("linux", is_required=False)

    folder = ROOT / "src" / "attnflow" / "model" / "native"
    assert {Path(name).name for name in library.sources} == {path.name for path in folder.glob("*.cpp")}
    assert {Path(name).name for name in library.depends} == {path.name for path in folder.glob("*.h")}
    assert [option for option in library.extra_compile_args if option.startswith("-m")] == []


@pytest.mark.parametrize("is_required", [False, True])
def test_a_library_that_is_required_is_not_optional(is_required, monkeypatch):
    monkeypatch.chdir(ROOT)
    (library,) = setup_script().extensions("darwin", is_required=is_required)

    assert library.optional is not is_required


def test_tests_run_on_all_systems_and_versions():
    systems = re.search(r"os: \[(.*)\]", WORKFLOWS["tests"])[1].split(", ")
    versions = re.findall(r'"(3\.\d+)"', re.search(r"python: \[(.*)\]", WORKFLOWS["tests"])[1])
    named = [line.rpartition(" ")[2] for line in PROJECT["project"]["classifiers"] if ":: Python :: 3." in line]

    assert systems == ["ubuntu-latest", "macos-latest", "windows-latest"]
    assert versions == named == ["3.11", "3.12", "3.13", "3.14"]
    assert PROJECT["project"]["requires-python"] == f">={versions[0]}"
    assert [f"cp{version.replace('.', '')}-*" for version in versions] == PROJECT["tool"]["cibuildwheel"][
        "build"
    ].split()


def test_wheels_are_built_with_the_oldest_jaxlib_that_is_allowed():
    (allowed,) = (line for line in PROJECT["project"]["dependencies"] if line.startswith("jax>="))

    assert f"jaxlib=={allowed.removeprefix('jax>=')}.0" in PROJECT["tool"]["cibuildwheel"]["before-build"]


def test_wheels_are_built_with_all_that_building_requires():
    """They are built without isolation, and `build` refuses to begin if a requirement is not installed."""
    settings = PROJECT["tool"]["cibuildwheel"]
    names = [re.match(r"\w+", line)[0] for line in PROJECT["build-system"]["requires"]]

    assert names == ["setuptools", "jaxlib"]
    for commands in (settings["before-build"], settings["windows"]["before-build"]):
        assert [name for name in names if name not in commands] == []


def test_scripts_have_the_line_ends_of_bash_on_every_system():
    """Git for Windows would write them with carriage returns, which bash takes for a part of the commands."""
    assert "* text=auto eol=lf" in (ROOT / ".gitattributes").read_text("utf-8").splitlines()


def test_workflows_call_the_scripts_of_the_repository():
    scripts = {name for text in WORKFLOWS.values() for name in re.findall(r"run: \.ci/(\w+)", text)}

    assert scripts == {"run", "tests", "wheel", "site"}
    assert [name for name in scripts if not (ROOT / ".ci" / name).exists()] == []
    assert {".ci/tests", ".ci/wheel", ".ci/site"} <= set((ROOT / ".ci" / "run").read_text("utf-8").split())


def test_workflows_that_need_the_live_page_install_its_compiler():
    assert [name for name, text in WORKFLOWS.items() if "install -y --no-install-recommends emscripten" in text] == [
        name for name, text in WORKFLOWS.items() if re.search(r"\.ci/(site|run)\b", text)
    ]


def test_the_source_archive_has_every_folder_that_tests_read():
    grafted = set(re.findall(r"^graft (\w+)$", (ROOT / "MANIFEST.in").read_text("utf-8"), re.MULTILINE))
    checked = re.search(r"git ls-files ([\w ]+) \|", (ROOT / ".ci" / "wheel").read_text("utf-8"))

    assert checked is not None
    assert grafted == {"tests", "docs", "benchmarks", "sweeps"}
    assert grafted | {"src"} == set(checked[1].split())


def test_the_changelog_has_the_usual_form():
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    versions = re.findall(r"^## \[([^\]]+)\]", text, re.MULTILINE)

    assert len(versions) == len(re.findall(r"^## ", text, re.MULTILINE))
    assert versions[0] == PROJECT["project"]["version"].partition(".dev")[0]
    assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= SECTIONS


def test_the_paper_cites_what_its_bibliography_has():
    text = (ROOT / "paper.md").read_text("utf-8")
    entries = set(re.findall(r"^@\w+\{([^,]+),", (ROOT / "paper.bib").read_text("utf-8"), re.MULTILINE))
    cited = set(re.findall(r"(?<![\w.])@([a-z][\w:-]+)", text.partition("---\n\n#")[2]))

    assert cited == entries


def test_the_paper_has_the_sections_and_the_length_that_the_journal_asks_for():
    """The sections that the Journal of Open Source Software asks for; disclosures are written by the authors who submit."""
    text = (ROOT / "paper.md").read_text("utf-8").partition("---\n\n#")[2]
    sections = re.findall(r"^# (.+)$", "#" + text, re.MULTILINE)
    wanted = ["Summary", "Statement of need", "State of the field", "Software design", "Research impact statement"]

    assert [section for section in sections if section in wanted] == wanted
    assert 750 <= len(text.split()) <= 1750


def test_workflows_have_no_more_rights_than_they_need_and_end():
    for name, text in WORKFLOWS.items():
        workflow = text.partition("\njobs:")
        assert "permissions:\n  contents: read\n" in workflow[0], name
        assert workflow[2].count("runs-on:") == workflow[2].count("timeout-minutes:"), name


def test_ratios_of_the_paper_are_those_of_the_documentation():
    table = (ROOT / "docs" / "reference" / "speed.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\S+)` \|(.*)\|$", (ROOT / "paper.md").read_text("utf-8"), re.MULTILINE)

    assert len(rows) > 3
    for name, cells in rows:
        (line,) = (line for line in table.splitlines() if line.startswith(f"| `{name}`"))
        for ratio in filter(None, map(str.strip, cells.split("|"))):
            assert f"| {ratio} |" in line


def test_readme_and_paper_count_statements_and_figures():
    readme = (ROOT / "README.md").read_text("utf-8")

    assert f"hold {len(statements())} statements" in (ROOT / "paper.md").read_text("utf-8")
    assert f"({len(statements())} statements with their hypotheses checked)" in readme
    assert f"`attnflow reproduce`: {len(figures())} figures with numbers" in readme


def test_ratios_of_the_readme_are_those_of_the_documentation():
    table = (ROOT / "docs" / "reference" / "speed.md").read_text("utf-8")
    rows = [line.split("|") for line in table.splitlines() if re.match(r"\| `(phase-diagram|causal-ensemble)`", line)]
    (heads,) = (line.split("|") for line in table.splitlines() if line.startswith("| `attnflow bench`"))
    columns = [next(i for i, head in enumerate(heads) if name in head) for name in ("diffrax", "SciPy")]
    diffrax, scipy = (sorted(float(row[column].split()[0]) for row in rows) for column in columns)

    said = "diffrax takes {:g} to {:g} times and SciPy {:g} to {:g} times".format(*diffrax, *scipy)
    assert said in " ".join((ROOT / "README.md").read_text("utf-8").split())
