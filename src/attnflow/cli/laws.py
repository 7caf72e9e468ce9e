"""Scenarios of the mean field on the command line: the part of `attnflow run` that calls `mean_field.evolve`."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attnflow._common.rounding import ROUNDING
from attnflow.cli.console import as_text, end_with_code_of, print_facts, print_json_or, progress_of, save_result
from attnflow.cli.numbers import number


def run_law(name: str, changes: dict, limits: dict, files: dict, overwrite: bool, as_json: bool, drawing: dict) -> None:
    """Integrate a scenario of the mean field; write the result and its picture, print what was found."""
    import json

    from attnflow.experiments.law_scenarios import LAWS, USED, law_scenario
    from attnflow.mean_field.continuity_equation import evolve

    setup = law_scenario(name, **changes)
    shown = {setting: value for setting, value in asdict(setup.settings).items() if setting in USED}
    found = evolve(**setup.arguments(), budget=limits.get("budget"), progress=progress_of(as_json))
    found = found.assign_attrs(scenario=name, settings=json.dumps(shown))
    heading = {"scenario": name, "paper": LAWS[name].paper, "settings": shown}
    finish_law(name, found, files, overwrite, as_json, drawing, heading)


def finish_law(
    title: str,
    found: Any,
    files: dict[str, Path],
    overwrite: bool,
    as_json: bool,
    drawing: dict[str, Any],
    heading: dict[str, Any],
) -> None:
    """Write the files that are asked for and print the facts of a density."""
    if "result" in files:
        save_result(found, files["result"], overwrite)
    if "picture" in files:
        from attnflow.show import density

        density(found, files["picture"], **drawing)
    facts = heading | law_facts(found) | as_text(files)
    print_json_or(as_json, facts, lambda: print_facts(title, readable_law(facts)))
    end_with_code_of(found)


def law_facts(found: Any) -> dict[str, Any]:
    """The facts that are printed of a density: how it ended, and its first and last measurements."""
    names = [name for name in ("order", "entropy", "energy", "free_energy") if name in found]
    ends = {name: [float(found[name][0]), float(found[name][-1])] for name in names}
    if "covariance" in found:
        trace = found.covariance.values.trace(axis1=1, axis2=2)
        ends["variance"] = [float(trace[0]), float(trace[-1])]
    checks = {"least_density": float(found.least_density.min()), "resolution": float(found.resolution.max())}
    where = {"domain": found.attrs["domain"], "outcome": found.attrs["outcome"]}
    return where | ends | checks | {"time": float(found.time[-1]), "steps": int(found.steps)}


def readable_law(facts: dict[str, Any]) -> dict[str, str]:
    """The facts of a density in words."""
    shown: dict[str, str] = {}
    if "bit_for_bit" in facts:
        shown |= {"repeated": facts["repeated"], "bit for bit": "equal" if facts["bit_for_bit"] else "different"}
    shown |= {"outcome": facts["outcome"], "saved until": f"t = {number(facts['time'])}"}
    for name in ("order", "variance", "entropy", "energy", "free_energy"):
        if name in facts:
            first, last = (_value(name, value) for value in facts[name])
            shown[name.replace("_", " ")] = f"{first} at first, {last} at the end"
    shown["least density"] = number(facts["least_density"])
    shown["last coefficients"] = f"at most {facts['resolution']:.1e}"
    return shown | {name: facts[name] for name in ("result", "picture") if name in facts}


def _value(name: str, value: float) -> str:
    """A measurement in words; an order has the rounding error of a sum, an energy that cut-off tails decide is NaN."""
    if math.isnan(value):
        return "decided by tails that the box cuts off"
    return number(value, ROUNDING if name == "order" else 0.0)
