"""What a command says against its result: numbers of headlines, counts, pictures, repeated bits."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from scipy.cluster.hierarchy import fcluster, linkage

import attnflow as af
from attnflow.results.provenance import flow_of

ROUNDING = 5e-4  # of a number that is written with four digits
DRAWN = ("--out", "--picture")


def contradiction(words: list[str], code: int, text: str, folder: Path, recorded: Path) -> str:
    """A sentence where what a command says is not so, else nothing."""
    if code == 2:
        return "" if text.strip() else "refused without a sentence"
    asked = dict(itertools.pairwise(words))
    for option in DRAWN:
        if option in asked and not _is_there(folder / asked[option]):
            return f"no file at {asked[option]}"
    if words[0] in ("run", "stream"):
        return _run_contradiction(words, asked, text, folder, recorded)
    if words[0] == "rerun" and code != 0:
        return f"the repeated run differs: {text[-300:]}"
    if words[0] == "config" and "--out" not in asked:
        return "" if "=" in text else "no settings are printed"
    return "" if text.strip() or words[0] in ("show", "config") else "nothing is printed"


def _is_there(path: Path) -> bool:
    return path.is_dir() or (path.exists() and path.stat().st_size > 0)


def _run_contradiction(words: list[str], asked: dict[str, str], text: str, folder: Path, recorded: Path) -> str:
    """What is wrong with the result and the headline of a run."""
    if not (folder / asked["--out"]).exists():
        return "no result was written"
    run = af.load(folder / asked["--out"])
    flow = flow_of(run)
    found = {"--n": run.sizes["token"], "--d": flow.dimension, "--beta": flow.beta}
    wrong = [key for key, value in found.items() if key in asked and value is not None and value != float(asked[key])]
    if wrong:
        return f"the result has {', '.join(f'{key} {found[key]}' for key in wrong)}"
    if words[1].endswith(".toml") and not any(word in words for word in found) and "--seed" not in words:
        before = af.load(recorded)
        if set(words) & {"--end", "--runs", "--mask", "--value", "--saves"} == set():
            return "" if np.array_equal(run.final_tokens, before.final_tokens) else "the settings give another run"
    facts: dict[str, Any] = json.loads(text[text.index("{") : text.rindex("}") + 1])
    return _headline_contradiction(facts["headline"], run, flow) if "time" in run and "headline" in facts else ""


def _headline_contradiction(headline: str, run: xr.Dataset, flow: Any) -> str:
    """The first number of a headline that is not that of the run."""
    said = {
        "tokens": (re.match(r"(\d+) ", headline), [run.sizes["token"]]),
        "beta": (re.search(r"beta = ([-\d.e+]+)", headline), [flow.beta]),
        "runs": (re.search(r" (\d+) runs at t", headline), [run.sizes.get("run", 1)]),
        "time": (re.search(r"at t = ([-\d.e+]+)", headline), np.ravel(run.final_time.values).tolist()),
    }
    for name, (match, values) in said.items():
        if match and not any(_is_near(float(match.group(1)), value) for value in values if value is not None):
            return f"the headline {headline!r} says another {name} than {values}"
    clusters = re.search(r"[ ,](\d+) clusters? at t", headline)
    if clusters and "run" not in run.dims and int(clusters.group(1)) not in _counts(run.final_tokens.values, flow):
        return (
            f"the headline {headline!r} says another number of clusters than {_counts(run.final_tokens.values, flow)}"
        )
    return ""


def _is_near(said: float, value: float) -> bool:
    return abs(said - value) <= ROUNDING * abs(value) + 1e-12


def _counts(tokens: np.ndarray, flow: Any) -> set[int]:
    """The numbers of clusters by single and by complete linkage, within half to twice the usual distances."""
    if len(tokens) == 1:
        return {1}
    size = 1.0 if flow.is_on_sphere else max(float(np.ptp(tokens, axis=0).max()), 1e-300)
    distances = [share * size for share in (0.001, 0.003, 0.005, 0.01, 0.02)]
    joined = [linkage(tokens, method) for method in ("single", "complete")]
    found = [int(fcluster(tree, distance, "distance").max()) for tree in joined for distance in distances]
    return set(range(min(found), max(found) + 1))
