"""Scenarios that coalesce, on the command line: the part of `attnflow run` that calls `coalesce`."""

import json
import math
from typing import Any

from attnflow._common.rounding import ROUNDING
from attnflow.cli.console import as_text, end_with_code_of, print_facts, print_json, progress_of, save_result
from attnflow.cli.numbers import counted, number
from attnflow.cli.theory import print_verdicts, verdicts_on

# Settings that act on a run of `coalesce`.
ACTING_SETTINGS = ("space", "n", "d", "beta", "attention", "query_key", "value", "start", "seed")


def run_coalescing(prepared: Any, title: str, files: dict, overwrite: bool, as_json: bool, drawing: dict) -> None:
    """Follow a scenario through all its metastable states; write the result and its staircase, print its verdicts."""
    import numpy as np

    from attnflow.experiments.headline import coalescing_headline
    from attnflow.show import staircase

    found, flow = prepared.run(progress_of(as_json)), prepared.arguments["flow"]
    save_result(found, files["result"], overwrite)
    if "picture" in files:
        staircase(found, files["picture"], **drawing)
    facts = {"scenario": title, "headline": coalescing_headline(flow, found)} | coalescing_facts(found)
    facts |= as_text(files)
    checked = [one for one in verdicts_on(found) if one.verdict.verdict != "not_applicable"]
    if as_json:
        shown = prepared.shown_settings()
        limits = json.loads(found.attrs["limits"])
        acts = {name: shown[name] for name in ACTING_SETTINGS} | {"rtol": found.attrs["rtol"]}
        acts |= limits | {"log_end": limits["log_end"] if np.isfinite(limits["log_end"]) else None}
        facts |= {"settings": acts, "merge_log_times": found.merge_log_time.values.tolist()}
        print_json(facts | {"verdicts": [one.verdict.as_dict() for one in checked]})
    else:
        print_facts(title, readable_facts(facts))
        if checked:
            print()
            print_verdicts(checked, folded=False)
    end_with_code_of(found)


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
        "quadrature_merges": int(found.quadrature_merges),
        "quadrature_error": float(found.quadrature_error),
    }


def readable_facts(facts: dict[str, Any]) -> dict[str, str]:
    """The facts of a run of `coalesce` in words; numbers that the headline or the outcome state are left out."""
    shown: dict[str, str] = {}
    if "bit_for_bit" in facts:
        shown |= {"repeated": facts["repeated"], "bit for bit": "equal" if facts["bit_for_bit"] else "different"}
    shown |= {name: facts[name] for name in ("headline", "outcome") if name in facts}
    shown["clusters"] = f"{facts['clusters']} after {counted(facts['merges'], 'merge')}"
    shown["time"] = f"log t = {number(facts['log_time'])}, {_power_of_ten(facts['log_time'])}"
    shown["merging distance"] = f"tokens within {number(facts['merge'])} of each other are one cluster"
    if "perturbed" in facts:
        moved = json.loads(facts["perturbed"])
        shown["first tokens"] = f"moved at random by {number(moved['amount'])}, seed {moved['seed']}"
    if facts["quadrature_merges"]:
        by_quadrature = f"{facts['quadrature_merges']} of {counted(facts['merges'], 'merge')}"
        shown["by quadrature"] = f"{by_quadrature}, positions to {_least_error(facts['quadrature_error'])}"
    return shown | {name: facts[name] for name in ("result", "picture") if name in facts}


def _power_of_ten(log_time: float) -> str:
    """A time, given by its logarithm, as a power of ten; plain where a float shows it well.

    Examples
    --------
    >>> _power_of_ten(149.598), _power_of_ten(2.996), _power_of_ten(-math.inf)
    ('t = 10^64.97', 't = 20.01', 't = 0')
    """
    if abs(log_time) < math.log(1e6) or math.isinf(log_time):
        return f"t = {number(math.exp(log_time))}"
    return f"t = 10^{log_time / math.log(10):.2f}"


def _least_error(error: float) -> str:
    """An error bound, at least that of rounding: no position in float64 is better known.

    Examples
    --------
    >>> _least_error(4.8e-17), _least_error(1.208e-7)
    ('rounding (1e-14)', '1.2e-07')
    """
    return f"rounding ({ROUNDING:.0e})" if error <= ROUNDING else f"{error:.2g}"
