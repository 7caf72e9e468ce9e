"""Make mutants, run the tests that use them, and list those that no test notices.

    python -m tests.mutation run       # about ten minutes of processor time; can be stopped and continued
    python -m tests.mutation again     # all that are neither killed nor accepted once more, with more time
    python -m tests.mutation check     # the tests that killed a mutant pass without it
    python -m tests.mutation report    # shares by package; fails if a survivor has no reason or the list is out of date

`run --package analyse --count 30` draws more mutants of one package; `--seed` draws others.

The tests run in a copy of the tree below `.mutation`; the sources are never changed in place. Results are kept in
`tests/mutation/results.json`. Survivors that are equivalent to the original, or accepted, stand with the reason in `accepted.json`.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from tests.mutation.mutants import Mutant, mutants_of, sample
from tests.mutation.swapping import make_copy
from tests.mutation.warm_runner import Ended, Settings, run_mutants

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "attnflow"
WORK = ROOT / ".mutation"
RESULTS, ACCEPTED = Path(__file__).with_name("results.json"), Path(__file__).with_name("accepted.json")
PACKAGES = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))
COUNTS = dict.fromkeys(PACKAGES, 8) | {"model": 24, "integrate": 20, "analyse": 24, "theorems": 28, "coalescence": 24}
FIRST_SECONDS, AGAIN_SECONDS = 4.0, 60.0
"""Processor seconds of tests for a mutant in the first round, and for a survivor once more."""


def run(chosen: list[Mutant], budget: float) -> None:
    """Run the tests of all mutants given, and keep each result at once."""
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(WORK / "compiled")
    count = [0]

    def tell(mutant: Mutant, ended: Ended) -> None:
        results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
        results[mutant.key] = {"outcome": ended.outcome, "by": ended.by}
        _write(results)
        count[0] += 1
        words = f"{ended.outcome} in {ended.seconds:.0f} s: line {mutant.lines.start}: {mutant.key}"
        print(f"{count[0]}/{len(chosen)} {words}\n    {ended.by}", flush=True)

    make_copy(ROOT, WORK / "tree")
    run_mutants(Settings(WORK / "tree", budget, tell), chosen)


def check(results: dict[str, dict[str, str]]) -> int:
    """Run the tests that killed mutants with the sources as they are; their exit status."""
    make_copy(ROOT, WORK / "tree")
    killers = {found["by"] for found in results.values() if found["outcome"] == "killed" and "::" in found["by"]}
    # Words with blanks in the name of a case are cut off in the output of pytest: all cases of such a test are run.
    tests = sorted(name if "[" not in name or name.endswith("]") else name.split("[")[0] for name in killers)
    environment = os.environ | {
        "PYTHONPATH": str(WORK / "tree" / "src"),
        "JAX_COMPILATION_CACHE_DIR": str(WORK / "compiled"),
    }
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-q", *tests], cwd=WORK / "tree", env=environment
    ).returncode


def report(results: dict[str, dict[str, str]], chosen: list[Mutant]) -> int:
    """Print shares by package and all survivors with their reasons; the number of faults of the list."""
    reasons = accepted()
    survivors = [key for key, found in results.items() if found["outcome"] != "killed"]
    for package in (*PACKAGES, ""):
        own = [found["outcome"] for key, found in results.items() if key.startswith(package and package + "/")]
        killed = own.count("killed")
        print(f"{package or 'all':12} {killed:3} of {len(own):3} killed, {100 * killed / max(len(own), 1):3.0f} %")
    equivalent = sum(reasons.get(key, "").startswith("Equivalent") for key in survivors)
    share = 100 * (len(results) - len(survivors)) / max(len(results) - equivalent, 1)
    print(f"Without the {equivalent} that are equivalent to the original: {share:.0f} % killed.")
    for key in survivors:
        print(f"{results[key]['outcome']}: {key}\n    {reasons.get(key, 'NO REASON')}")
    now = {mutant.key for package in PACKAGES for mutant in mutants_of(SOURCE, package)}
    drawn = {mutant.key for mutant in chosen}
    faults = {
        "survivors without a reason": set(survivors) - reasons.keys(),
        "reasons for mutants that do not survive": reasons.keys() - set(survivors),
        "results of places that the sources no longer have": results.keys() - now,
        "mutants of the sample without a result": drawn - results.keys(),
    }
    for name, keys in faults.items():
        if keys:
            print(f"{len(keys)} {name}:", *sorted(keys), sep="\n    ")
    return sum(map(len, faults.values()))


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["run", "again", "check", "report"])
    parser.add_argument("--count", type=int, help="mutants of each package; by default more of those that compute most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--package", action="append", choices=PACKAGES)
    parser.add_argument("--seconds", type=float, help="processor seconds of tests for one mutant")
    given = parser.parse_args()
    counts = {package: given.count or COUNTS[package] for package in given.package or PACKAGES}
    results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    chosen = sample(SOURCE, counts, given.seed)
    if given.action == "report":
        sys.exit(1 if report(results, chosen) else 0)
    if given.action == "check":
        sys.exit(check(results))
    now = {mutant.key: mutant for package in PACKAGES for mutant in mutants_of(SOURCE, package)}
    kept = {key: found for key, found in results.items() if key in now}  # of places that the sources still have
    _write(kept)
    if given.action == "run":
        run([mutant for mutant in chosen if mutant.key not in kept], given.seconds or FIRST_SECONDS)
    else:
        done = {key for key, found in kept.items() if found["outcome"] == "killed"} | accepted().keys()
        wanted = {mutant.key: mutant for mutant in chosen} | {key: now[key] for key in kept}
        run([mutant for key, mutant in wanted.items() if key not in done], given.seconds or AGAIN_SECONDS)


def accepted() -> dict[str, str]:
    """The reason for every survivor that is accepted."""
    return json.loads(ACCEPTED.read_text("utf-8"))


def _write(results: dict[str, dict[str, str]]) -> None:
    RESULTS.write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
