"""The command `attnflow list`: scenarios, figures, and the settings of one scenario."""

from typing import Annotated, Any

import typer

from attnflow.cli import completion, figures
from attnflow.cli.console import AsJson, print_facts, print_json, print_sentences, print_table
from attnflow.cli.run import PANEL


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("list", epilog="Example: attnflow list renyi", rich_help_panel=PANEL)(list_names)


def list_names(
    what: Annotated[
        str, typer.Argument(help="scenarios, figures, or the name of a scenario.", autocompletion=completion.listed)
    ] = "scenarios",
    as_json: AsJson = False,
) -> None:
    """List the scenarios, the figures that 'attnflow reproduce' makes, or the settings of one scenario."""
    from dataclasses import asdict

    from attnflow._common.checks import require_known
    from attnflow.experiments.catalogue import CATALOGUE
    from attnflow.experiments.control_scenarios import CONTROLS
    from attnflow.experiments.control_scenarios import USED as USED_BY
    from attnflow.experiments.law_scenarios import LAWS, USED

    require_known(what, ("scenarios", "figures", *CATALOGUE, *LAWS, *CONTROLS), "list")
    if what in LAWS or what in CONTROLS:
        listed = (LAWS | CONTROLS)[what]
        facts = {"shows": listed.sentence, "paper": f"arXiv:{listed.paper}", "run": f"attnflow run {what}"}
        acting = USED_BY.get(what, USED)
        used = {name: value for name, value in asdict(listed.settings).items() if name in acting}
        print_json(facts | {"settings": used}) if as_json else print_facts(what, facts | _shown(used))
    elif what == "figures":
        figures.list_figures(as_json)
    elif what == "scenarios":
        _list_scenarios(as_json)
    else:
        facts, rows = _facts(CATALOGUE[what]), _rows(what)
        print_json(facts | {"settings": rows}) if as_json else _print_scenario(facts, rows)


def _shown(settings: dict[str, Any]) -> dict[str, str]:
    """The settings of a law or a control by option, without those that are not set."""
    return {f"--{name.replace('_', '-')}": str(value) for name, value in settings.items() if value is not None}


def _list_scenarios(as_json: bool) -> None:
    from dataclasses import asdict

    from attnflow.experiments.catalogue import CATALOGUE
    from attnflow.experiments.control_scenarios import CONTROLS
    from attnflow.experiments.law_scenarios import LAWS

    every = (*CATALOGUE.values(), *LAWS.values(), *CONTROLS.values())
    if as_json:
        print_json([asdict(scenario) for scenario in every])
        return
    from rich.table import Table

    table = Table("scenario", "what it shows", "paper", box=None, header_style="bold")
    table.columns[0].no_wrap = table.columns[2].no_wrap = True
    for scenario in every:
        table.add_row(f"[cyan]{scenario.name}[/]", scenario.sentence, f"arXiv:{scenario.paper}")
    print_table(table)
    print_sentences("'attnflow list NAME' shows the settings of one of them.", style="dim")


def _facts(scenario: Any) -> dict[str, str]:
    """Name, sentence, paper, statement and command of a scenario."""
    facts = {"name": scenario.name, "shows": scenario.sentence, "paper": f"arXiv:{scenario.paper}"}
    if scenario.statement:
        from attnflow.theorems.catalogue import find

        facts["statement"] = f"{scenario.statement}: {find(scenario.statement).says}"
        facts["verify"] = f"attnflow verify {scenario.statement} --run {scenario.name}.zarr"
    return {
        **facts,
        "computed by": "coalesce" if scenario.coalesces else "simulate",
        "run": f"attnflow run {scenario.name}",
    }


def _rows(name: str) -> list[dict[str, Any]]:
    """Every option with its value and meaning; the value is None, with a reason, where the option is not in use."""
    from attnflow.experiments.configs.prepared_run import expanded, prepare
    from attnflow.experiments.configs.run_config import RunConfig
    from attnflow.experiments.effects import reason_without_effect
    from attnflow.experiments.options import COALESCING, COMPUTING, LIMITS, SCENARIO_OPTIONS

    config = RunConfig({"scenario": name})
    prepared, values = prepare(config), expanded(config).values
    return [
        {
            "option": f"--{option.replace('_', '-')}",
            "value": values.get(option),
            "meaning": meaning.help(option),
            "no_effect": reason_without_effect(option, prepared.settings, prepared.method),
        }
        for option, meaning in (SCENARIO_OPTIONS | LIMITS | COALESCING | COMPUTING).items()
    ]


def _print_scenario(facts: dict[str, str], rows: list[dict[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    print_facts(facts["name"], {name: fact for name, fact in facts.items() if name != "name"})
    table = Table("option", "value", "meaning", box=None, header_style="bold")
    table.columns[0].no_wrap = True
    for row in rows:
        if not row["no_effect"]:
            value = "not set" if row["value"] is None else str(row["value"])
            table.add_row(Text(row["option"], "cyan"), Text(value), Text(row["meaning"], "dim"))
    print_table(table)
    idle = [f"{row['option']} ({row['no_effect']})" for row in rows if row["no_effect"]]
    if idle:
        print_sentences(f"Without effect here: {', '.join(idle)}.", style="dim")
