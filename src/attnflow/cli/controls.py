"""Scenarios of control on the command line: the part of `attnflow run` that constructs weights."""

import json
from pathlib import Path
from typing import Any

from attnflow.cli.console import as_text, print_facts, print_json_or, save_result


def prepare_control(name: str, changes: dict[str, Any], limits: dict[str, Any], save_config: Path | None) -> Any:
    """The scenario with its settings; InputError for options that have no effect on it."""
    from attnflow._common.checks import InputError
    from attnflow.experiments.control_scenarios import control_scenario

    given = [option for option, value in limits.items() if value is not None]
    given += [] if save_config is None else ["save_config"]
    if given:
        raise InputError(
            f"`--{given[0].replace('_', '-')}` applies to simulations only: the end time of a control follows from its "
            "construction. Leave it out."
        )
    return control_scenario(name, **changes)


def run_control(setup: Any, files: dict[str, Path], overwrite: bool, as_json: bool, drawing: dict[str, Any]) -> None:
    """Construct the control of a scenario; write its run and picture, print what it costs."""
    from attnflow.experiments.control_scenarios import CONTROLS

    found, settings = setup.find(), setup.shown_settings()
    run = found.run.assign_attrs(scenario=setup.name, settings=json.dumps(settings))
    save_result(run, files["result"], overwrite)
    if "picture" in files:
        from attnflow.show.runs.steering import steering as draw

        draw(run, files["picture"], **drawing)
    heading = {"scenario": setup.name, "paper": CONTROLS[setup.name].paper, "settings": settings}
    facts = heading | control_facts(found) | as_text(files)
    print_json_or(as_json, facts, lambda: print_facts(setup.name, _readable(facts) | as_text(files)))


def control_facts(found: Any) -> dict[str, Any]:
    """The number of tokens, prompts and pieces, the time, its gap where a limit is known, and the largest error."""
    from attnflow.control.sequences import SequenceInterpolation
    from attnflow.control.steering import Steering

    shape = found.run.final_tokens.shape
    facts = {"prompts": shape[0] if len(shape) == 3 else 1, "tokens": shape[-2], "dimension": shape[-1]}
    facts |= {"pieces": len(found.control.pieces), "time": float(found.control.times[-1])}
    if isinstance(found, Steering):
        facts |= {"shortest time of these operator norms": found.limit.time, "gap": found.gap}
    if isinstance(found, SequenceInterpolation):
        facts["blocks that the theorem states"] = found.stated_blocks
    return facts | {"largest error": found.terminal_error}


def _readable(facts: dict[str, Any]) -> dict[str, str]:
    prompts = f"{facts['prompts']} prompts of " if facts["prompts"] > 1 else ""
    stated = facts.get("blocks that the theorem states")
    time = f"{facts['time']:.6g}"
    if "gap" in facts:
        time += f", {facts['gap']:.3g} times the least that the operator norms of the weights allow"
    return {
        "tokens": f"{prompts}{facts['tokens']} in dimension {facts['dimension']}",
        "pieces": str(facts["pieces"]) + ("" if stated is None else f" blocks, {stated} stated"),
        "time": time,
        "error": f"{facts['largest error']:.1e}, the largest distance from a target",
    }
