"""Scenarios that coalesce, on the command line: the part of `attnflow run` that calls `coalesce`."""

import json
from typing import Any

from attnflow.cli.console import as_text, print_facts, print_json, progress_of
from attnflow.cli.theory import print_verdicts, verdicts_on

# Settings that act on a run of `coalesce`.
ACTING_SETTINGS = ("space", "n", "d", "beta", "attention", "query_key", "value", "start", "seed")


def run_coalescing(
    scenario: Any, changes: dict, settings: Any, setup: Any, files: dict, overwrite: bool, limits: dict, as_json: bool
) -> None:
    """Follow a scenario through all its metastable states; write the result and its staircase, print its verdicts."""
    from dataclasses import asdict

    import numpy as np

    from attnflow._common.checks import require_positive_number
    from attnflow.coalescence.coalesce import coalesce
    from attnflow.experiments.headline import coalescing_headline
    from attnflow.results.files import save
    from attnflow.show import staircase

    given = limits | ({} if changes["rtol"] is None else {"rtol": changes["rtol"]})
    if changes["end"] is not None:
        require_positive_number(changes["end"], "end", "Use 1e9.")
        given["log_end"] = float(np.log(changes["end"]))
    found = coalesce(setup.flow, setup.tokens, rng=settings.seed, progress=progress_of(as_json), **given)
    save(found, files["result"], overwrite=overwrite)
    if "picture" in files:
        staircase(found, files["picture"])
    facts = {"scenario": scenario.name, "headline": coalescing_headline(setup.flow, found)} | coalescing_facts(found)
    facts |= as_text(files)
    checked = [one for one in verdicts_on(found) if one.verdict.verdict != "not_applicable"]
    if as_json:
        limits = json.loads(found.attrs["limits"])
        acts = {name: asdict(settings)[name] for name in ACTING_SETTINGS} | {"rtol": found.attrs["rtol"]}
        acts |= limits | {"log_end": limits["log_end"] if np.isfinite(limits["log_end"]) else None}
        facts |= {"settings": acts, "merge_log_times": found.merge_log_time.values.tolist()}
        print_json(facts | {"verdicts": [one.verdict.as_dict() for one in checked]})
    else:
        print_facts(scenario.name, readable_facts({key: value for key, value in facts.items() if key != "scenario"}))
        if checked:
            print_verdicts(checked, folded=False)


def coalescing_facts(found: Any) -> dict[str, Any]:
    """The facts that are printed of a run of `coalesce`."""
    return {
        "outcome": found.attrs["outcome"],
        "merges": found.sizes["merge"],
        "clusters": int(found.clusters[-1]),
        "log_time": float(found.log_time[-1]),
        "steps": int(found.steps),
        "merge": found.attrs["merge"],
        **({"perturbed": found.attrs["perturbed"]} if "perturbed" in found.attrs else {}),
        "quadrature_error": float(found.quadrature_error),
    }


def readable_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts of a run of `coalesce` with names in words and numbers of four digits."""
    names = {
        "log_time": "log t",
        "merge": "merging distance",
        "perturbed": "first tokens moved by",
        "quadrature_error": "quadrature error",
        "bit_for_bit": "bit for bit",
    }
    return {names.get(name, name): f"{fact:.4g}" if isinstance(fact, float) else fact for name, fact in facts.items()}
