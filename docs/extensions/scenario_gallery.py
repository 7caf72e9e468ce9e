"""Gallery of scenarios: each with its text, command, code, what the command prints, its picture and a player."""

import html
from pathlib import Path

from generated import contents, linked, made, size_of_build, write_page
from scenario_code import code
from sphinx.application import Sphinx
from typer.testing import CliRunner

import attnflow as af
from attnflow.cli.app import app as commands
from attnflow.experiments.catalogue import CATALOGUE
from attnflow.experiments.control_scenarios import CONTROLS
from attnflow.experiments.law_scenarios import LAWS
from attnflow.experiments.settings import Scenario

GROUPS = {"Tokens": CATALOGUE, "Infinitely many tokens": LAWS, "Control": CONTROLS}

SMALL = ("polytope", "sphere", "causal")  # the scenarios that a small build computes
FRAMES = 150  # of a player: half a megabyte for 64 tokens in three dimensions


def setup(app: Sphinx) -> dict:
    """Write the pages before the sources are read."""
    app.connect("builder-inited", lambda app: write_scenarios(Path(app.srcdir)))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_scenarios(source: Path) -> None:
    """Run the scenarios and write a page for each."""
    every = {name: scenario for group in GROUPS.values() for name, scenario in group.items()}
    for name, scenario in every.items():
        is_computed = size_of_build() != "small" or name in SMALL
        if is_computed:
            _compute(source / "_build" / "extra" / "scenarios", scenario)
        write_page(source, f"scenarios/{name}.md", _page(source, scenario, is_computed))
    introduction = (
        f"{len(every)} named experiments, each run by one command. Settings can be changed: `attnflow list NAME` "
        "prints them, and `attnflow run NAME --n 100 --beta 4` changes two. `attnflow explore NAME` shows a scenario "
        "of tokens in a page in which they change while the tokens move."
    )
    cards = "\n\n".join(_cards(source, title, group) for title, group in GROUPS.items())
    write_page(
        source, "scenarios/index.md", contents("Scenarios", f"{introduction}\n\n{cards}", list(every), is_hidden=True)
    )


def _cards(source: Path, title: str, group: dict[str, Scenario]) -> str:
    """A heading, and under it a card for each scenario of a group."""
    cards = "".join(_card(source, scenario) for scenario in group.values())
    return f'## {title}\n\n```{{raw}} html\n<div class="cards">{cards}</div>\n```'


def _card(source: Path, scenario: Scenario) -> str:
    """A link to the page of a scenario, with its picture where there is one."""
    picture = source / "_build" / "extra" / "scenarios" / f"{scenario.name}.png"
    drawn = f'<img src="../../scenarios/{picture.name}" alt="" loading="lazy">' if picture.exists() else ""
    text = f"<strong>{scenario.name}</strong><span>{html.escape(scenario.sentence)}</span>"
    return f'<a href="{scenario.name}.html">{drawn}{text}</a>'


def _compute(folder: Path, scenario: Scenario) -> None:
    """Run the command of the page; keep what it prints, its picture and a player of its result."""
    made(folder / f"{scenario.name}.txt", lambda path: _run(path, scenario))


def _run(printed: Path, scenario: Scenario) -> None:
    result, picture = printed.with_suffix(".nc"), printed.with_suffix(".png")
    files = ["--out", str(result), "--picture", str(picture), "--overwrite"]
    answer = CliRunner().invoke(commands, ["run", scenario.name, *files], catch_exceptions=False)
    if answer.exit_code != 0:
        raise RuntimeError(f"attnflow run {scenario.name} ends with code {answer.exit_code}: {answer.output}")
    if scenario.name not in LAWS:  # a density has no tokens that a player could show
        with af.load(result) as run:
            af.show.html(run, printed.with_suffix(".html"), title=scenario.sentence, frames=FRAMES)
    lines = [line for line in answer.stdout.splitlines() if str(printed.parent) not in line]
    printed.write_text("\n".join(lines) + "\n", "utf-8")


def _page(source: Path, scenario: Scenario, is_computed: bool) -> str:
    name, folder = scenario.name, "../../scenarios"
    parts = [f"(scenario-{name})=\n# {name}", scenario.sentence, f"Paper: {linked(f'arXiv:{scenario.paper}')}."]
    if scenario.statement:
        parts.append(f"The statement that decides whether a run shows it: {{ref}}`{scenario.statement}`.")
    if is_computed and name not in LAWS:
        player = f'<iframe class="player" src="{folder}/{name}.html" title="{name}" loading="lazy"></iframe>'
        parts.append(f"```{{raw}} html\n{player}\n```")
    parts.append(f"```console\n$ attnflow run {name}\n```")
    if is_computed:
        printed = (source / "_build" / "extra" / "scenarios" / f"{name}.txt").read_text("utf-8").rstrip()
        parts.append(f"```text\n{printed}\n```")
        parts.append(f'```{{raw}} html\n<img src="{folder}/{name}.png" alt="{name}" loading="lazy">\n```')
    parts.append(f"In Python:\n\n```python\n{code(scenario)}\n```")
    return "\n\n".join(parts) + "\n"
