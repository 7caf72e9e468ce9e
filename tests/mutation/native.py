"""Mutants of the native sources: each is built in a copy and run against the tests of the native path.

    python -m tests.mutation.native run       # all without a result; can be stopped and continued
    python -m tests.mutation.native again     # survivors without a reason once more
    python -m tests.mutation.native report    # fails where one survives without a reason

The copy is below `.mutation`, is built for this processor alone, and is compiled with few optimisations. Results are kept in
`tests/mutation/native_results.json`; the reasons for accepted survivors stand beside the mutants.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Collection
from pathlib import Path

import jax
from tests.mutation.native_mutants import INCLUDES, MUTANTS, TESTS, NativeMutant
from tests.mutation.swapping import make_copy

ROOT = Path(__file__).parents[2]
COPY = ROOT / ".mutation" / "native"
RESULTS = Path(__file__).with_name("native_results.json")
FLAGS = ("-std=c++17", "-O1", "-march=native", "-fno-math-errno", "-fPIC", "-w")
SECONDS = 900  # of the tests of one mutant; a mutant that takes longer counts as noticed


def main() -> int:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["run", "again", "report"])
    action = parser.parse_args().action
    if action != "report":
        _run(again=action == "again")
    return _report()


def _run(again: bool) -> None:
    """Build and test the mutants that have no result, or survivors without a reason, and keep each result at once."""
    make_copy(ROOT, COPY)
    for path in COPY.glob("src/attnflow/model/native/_kernels*"):
        path.unlink()
    for header in ("simd.h", "pair_sums.h"):  # one variant instead of one for each kind of processor
        file = _source(header)
        file.write_text(
            file.read_text("utf-8").replace("#if defined(__x86_64__)", "#if 0 && defined(__x86_64__)"), "utf-8"
        )
    for source in INCLUDES:
        _compile(source, "whole")
    _link(changed=())
    ended, by = _tested(sorted({name for names in TESTS.values() for name in names}))
    assert ended == "survived", f"the copy without a mutant fails: {by}"
    for place, mutant in enumerate(MUTANTS):
        known = _results().get(mutant.key)
        if known and not (again and known["outcome"] == "survived" and not mutant.reason):
            continue
        outcome, by = _outcome(mutant)
        RESULTS.write_text(
            json.dumps(_results() | {mutant.key: {"outcome": outcome, "by": by}}, indent=1) + "\n", "utf-8"
        )
        print(f"{place + 1}/{len(MUTANTS)} {outcome}: {mutant.key}\n    {by}", flush=True)


def _outcome(mutant: NativeMutant) -> tuple[str, str]:
    """Whether a test notices the mutant, and which."""
    file = _source(mutant.file)
    text = file.read_text("utf-8")
    assert text.count(mutant.original) == 1, f"must occur once: {mutant.key}"
    changed = [source for source, headers in INCLUDES.items() if mutant.file in {source, *headers}]
    try:
        file.write_text(text.replace(mutant.original, mutant.replacement), "utf-8")
        for source in changed:
            _compile(source, "mutant")
        _link(changed)
        return _tested(TESTS[mutant.file])
    finally:
        file.write_text(text, "utf-8")


def _source(name: str) -> Path:
    return COPY / "src" / "attnflow" / "model" / "native" / name


def _object(source: str, kind: str) -> Path:
    return COPY / f"{source}.{kind}.o"


def _compile(source: str, kind: str) -> None:
    files = ["-c", str(_source(source)), "-o", str(_object(source, kind))]
    subprocess.run(["g++", *FLAGS, f"-I{jax.ffi.include_dir()}", *files], check=True)


def _link(changed: Collection[str]) -> None:
    """Link the mutants of the changed sources with the others."""
    target = _source(f"_kernels{sysconfig.get_config_var('EXT_SUFFIX')}")
    target.unlink(missing_ok=True)  # a library that is overwritten in place would change in processes that use it
    objects = [str(_object(source, "mutant" if source in changed else "whole")) for source in INCLUDES]
    subprocess.run(["g++", "-shared", "-o", str(target), *objects], check=True)


def _tested(tests: tuple[str, ...] | list[str]) -> tuple[str, str]:
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-x", "--tb=no", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"PYTHONPATH": str(COPY / "src")}
    try:
        done = subprocess.run(command, cwd=COPY, env=environment, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return "killed", "the tests do not end"
    if done.returncode == 0:
        return "survived", ""
    first = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return "killed", first.group(1) if first else f"exit code {done.returncode}: {done.stdout[-200:]}"


def _results() -> dict[str, dict[str, str]]:
    found = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    return {mutant.key: found[mutant.key] for mutant in MUTANTS if mutant.key in found}


def _report() -> int:
    """Print the share that is killed and all survivors; returns 1 where one has no reason or no result."""
    results = _results()
    survivors = [mutant for mutant in MUTANTS if results.get(mutant.key, {}).get("outcome") == "survived"]
    killed = sum(found["outcome"] == "killed" for found in results.values())
    print(f"{killed} of {len(results)} killed, {len(MUTANTS) - len(results)} without a result")
    for mutant in survivors:
        print(f"survived: {mutant.key}\n    {mutant.reason or 'NO REASON'}")
    return int(len(results) < len(MUTANTS) or any(not mutant.reason for mutant in survivors))


if __name__ == "__main__":
    sys.exit(main())
