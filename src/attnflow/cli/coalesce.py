"""Scenarios whose tokens become one, on the command line."""

import json
from typing import Any

from attnflow.cli.console import print_facts, print_json
from attnflow.cli.theory import print_verdicts, verdicts_on

IDLE = {  # of a run that goes on until all tokens have met
    "saves": "states are kept wherever something has changed",
    "spacing": "states are kept wherever something has changed",
    "runs": "one start is followed, and `seed` chooses another",
    "solver": "it has steps of its own, and `rtol` says how fine",
    "atol": "it has steps of its own, and `rtol` says how fine",
    "clustered": "it ends when all tokens have met, or at `end`",
    "settled": "it ends when all tokens have met, or at `end`",
    "diverged": "tokens stay on the sphere",
    "float32": "it computes in double precision",
}
# Settings that act on a run of `coalesce`.
COALESCING = ("space", "n", "d", "beta", "attention", "query_key", "value", "start", "seed")
UNSAID = ("seed", "rtol", "end")  # settings that make no scenario's sentence wrong


def require_none_idle(given: dict[str, Any]) -> None:
    """Refuse what a run of `coalesce` would not take notice of."""
    from attnflow._common.checks import InputError

    for name, reason in IDLE.items():
        if given[name] is not None:
            raise InputError(f"`{name}` would change nothing here: {reason}. Leave it out.")


def require_coalescing(given: dict[str, Any]) -> None:
    """Refuse what only a run of `coalesce` takes notice of."""
    from attnflow._common.checks import InputError
    from attnflow.experiments.scenarios import CATALOGUE

    names = " and ".join(one.name for one in CATALOGUE.values() if one.coalesces)
    for name, value in given.items():
        if value is not None:
            raise InputError(f"`{name}` is for scenarios whose tokens become one: {names}. Leave it out.")


def run_coalescing(
    scenario: Any, changes: dict, settings: Any, setup: Any, files: dict, overwrite: bool, limits: dict, as_json: bool
) -> None:
    """Follow a scenario through all its metastable states; write the result and its staircase, print its verdicts."""
    from dataclasses import asdict

    import numpy as np

    from attnflow._common.checks import require_positive_number
    from attnflow.coalescence.coalesce import coalesce
    from attnflow.results.files import save
    from attnflow.show import staircase

    given = limits | ({} if changes["rtol"] is None else {"rtol": changes["rtol"]})
    if changes["end"] is not None:
        require_positive_number(changes["end"], "end", "Use 1e9.")
        given["log_end"] = float(np.log(changes["end"]))
    found = coalesce(setup.flow, setup.tokens, rng=settings.seed, progress=False if as_json else None, **given)
    save(found, files["result"], overwrite=overwrite)
    what = _what_coalesces(scenario.sentence, changes, settings, found)
    if "picture" in files:
        staircase(found, files["picture"], what.replace("e^beta", "$e^{\\beta}$").replace(" beta", " β"))
    facts = {"scenario": scenario.name, "what": what} | coalescing_facts(found)
    facts |= {name: str(path) for name, path in files.items()}
    checked = [one for one in verdicts_on(found) if one.verdict.verdict != "not_applicable"]
    if as_json:
        limits = json.loads(found.attrs["limits"])
        acts = {name: asdict(settings)[name] for name in COALESCING} | {"rtol": found.attrs["rtol"]}
        acts |= limits | {"log_end": limits["log_end"] if np.isfinite(limits["log_end"]) else None}
        facts |= {"settings": acts, "merge_log_times": found.merge_log_time.values.tolist()}
        print_json(facts | {"verdicts": [one.verdict.as_dict() for one in checked]})
    else:
        print_facts(scenario.name, {key: value for key, value in facts.items() if key != "scenario"})
        if checked:
            print_verdicts(checked, folded=False)


def _what_coalesces(sentence: str, changes: dict, settings: Any, found: Any) -> str:
    """A scenario's sentence, or where settings were changed one that tells them."""
    changed = [name for name, value in changes.items() if value is not None and name not in UNSAID]
    is_one = int(found.clusters[-1]) == 1
    if not changed and is_one:
        return sentence
    count, d = found.sizes["token"], found.sizes["coordinate"]
    tokens = f"{count} token{'s' if count > 1 else ''} on {'the circle' if d == 2 else f'the sphere in dimension {d}'}"
    others = [f"{name} {getattr(settings, name)}" for name in changed if name not in ("n", "d", "beta")]
    through = "through every metastable state" if is_one else "through metastable states"
    return f"{tokens} at beta = {settings.beta:g}, {through}" + ", with ".join(["", *others]) + "."


def coalescing_facts(found: Any) -> dict[str, Any]:
    """How a run of `coalesce` went."""
    return {
        "outcome": found.attrs["outcome"],
        "merges": found.sizes["merge"],
        "log_time": float(found.log_time[-1]),
        "steps": int(found.steps),
        "merge": found.attrs["merge"],
        **({"perturbed": found.attrs["perturbed"]} if "perturbed" in found.attrs else {}),
        "quadrature_error": float(found.quadrature_error),
    }
