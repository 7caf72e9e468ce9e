"""Make mutants, run the tests that execute their lines, and list those that no test notices.

    pip install pytest-cov
    python -m tests.mutation map                        # once: which test executes which line (all tests, about an hour)
    python -m tests.mutation run --count 200 --seed 0   # can be stopped and continued; results in .mutation/mutants.json
    python -m tests.mutation report

`map --tests tests/analyse` and `run --package analyse` do the same for one package.

Survivors that are equivalent to the original, or accepted, stand with the reason in accepted.json.
"""

import argparse
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.mutation.mutants import Mutant, sample

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "attnflow"
WORK = ROOT / ".mutation"
MAP, RESULTS = WORK / "coverage.db", WORK / "mutants.json"
ACCEPTED = Path(__file__).parent / "accepted.json"
PACKAGES = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))
SECONDS = 300.0  # a mutant that makes the tests run longer counts as noticed
MOST_TESTS = 40  # of those that execute a line, spread evenly over files


def make_map(tests: str) -> None:
    """Run tests once and keep the lines that each executes."""
    WORK.mkdir(exist_ok=True)
    environment = os.environ | {"COVERAGE_FILE": str(MAP)}
    options = ["--cov=attnflow", "--cov-context=test", "--cov-report=", "-q", "-p", "no:randomly"]
    subprocess.run([sys.executable, "-m", "pytest", *options, tests], cwd=ROOT, env=environment)


def tests_of(mutant: Mutant) -> list[str]:
    """Tests that execute the line of a mutant, from different files first."""
    with sqlite3.connect(MAP) as database:
        rows = database.execute(
            "select context.context, line_bits.numbits from line_bits join context on context.id = context_id "
            "join file on file.id = file_id where file.path like ?",
            (f"%src/attnflow/{mutant.path}",),
        ).fetchall()
    covers = lambda bits: mutant.line // 8 < len(bits) and bits[mutant.line // 8] >> (mutant.line % 8) & 1
    names = sorted({name.partition("|")[0] for name, bits in rows if name and covers(bits)})
    by_file: dict[str, list[str]] = {}
    for name in names:
        by_file.setdefault(name.partition("::")[0], []).append(name)
    spread = [names[turn] for turn in range(MOST_TESTS) for names in by_file.values() if turn < len(names)]
    return spread[:MOST_TESTS]


def is_noticed(mutant: Mutant, tests: list[str]) -> bool:
    """Whether a test fails with the mutant in place of its file."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "attnflow")
        shutil.copytree(SOURCE, copy)
        (copy / mutant.path).write_text(mutant.text, "utf-8")
        environment = os.environ | {"PYTHONPATH": folder}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]
        try:
            ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return True
        return ended.returncode != 0


def run(count: int, seed: int, packages: list[str]) -> None:
    """All mutants that have no result yet."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    chosen = sample(SOURCE, packages, count, seed)
    for number, mutant in enumerate(chosen, 1):
        key = f"{mutant.path}:{mutant.line}: {mutant.before} -> {mutant.after}"
        if key in results:
            continue
        tests = tests_of(mutant)
        results[key] = "noticed" if tests and is_noticed(mutant, tests) else "survived" if tests else "not executed"
        RESULTS.write_text(json.dumps(results, indent=1))
        print(f"{number}/{len(chosen)} {results[key]}: {key}", flush=True)


def report() -> None:
    """Shares by package, and every survivor without a reason."""
    results, accepted = json.loads(RESULTS.read_text()), json.loads(ACCEPTED.read_text()) if ACCEPTED.exists() else {}
    for package in PACKAGES:
        own = {key: value for key, value in results.items() if key.startswith(package + "/")}
        if own:
            noticed = sum(value == "noticed" for value in own.values())
            print(f"{package:12} {noticed} of {len(own)} noticed")
    noticed = sum(value == "noticed" for value in results.values())
    print(f"{'all':12} {noticed} of {len(results)} noticed, {100 * noticed / len(results):.0f} %")
    for key, value in results.items():
        if value != "noticed":
            print(f"{value}: {key}\n    {accepted.get(key, 'NO REASON')}")


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["map", "run", "report"])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--package", action="append", choices=PACKAGES)
    parser.add_argument("--tests", default="tests")
    given = parser.parse_args()
    actions = {
        "map": lambda: make_map(given.tests),
        "run": lambda: run(given.count, given.seed, given.package or PACKAGES),
        "report": report,
    }
    actions[given.action]()


if __name__ == "__main__":
    main()
