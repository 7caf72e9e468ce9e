"""The documentation's command lines with other numbers: an exit code, no traceback, and a result with the numbers asked for."""

import contextlib
import io
import itertools
import re
import shlex
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np

import attnflow as af
from attnflow.results.provenance import flow_of

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "commands.md"
COMMANDS = ("run", "stream", "predict", "list")
CODES = (0, 1, 2)  # done, done with a negative answer, refused with a sentence
VALUES = {
    "--n": lambda rng: str(int(rng.integers(1, 30))),
    "--d": lambda rng: str(int(rng.integers(1, 5))),
    "--beta": lambda rng: f"{rng.choice([-1.0, 0.0, 1.0, rng.uniform(0, 30)]):.3g}",
    "--seed": lambda rng: str(int(rng.integers(0, 100))),
    "--end": lambda rng: f"{10 ** rng.uniform(-1, 3):.3g}",
    "--runs": lambda rng: str(int(rng.integers(1, 4))),
}


class Called(NamedTuple):
    """One command line, its exit code, and what is wrong with it, if anything."""

    words: str
    answer: str
    is_wrong: bool


def lines() -> list[list[str]]:
    """The command lines of the page whose commands take seconds."""
    found = re.findall(r"^ +attnflow ([^#\n]+)", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [words for words in map(shlex.split, found) if words[0] in COMMANDS]


def varied(seed: int) -> list[str]:
    """Case number `seed`: a line of the page with its numbers changed, and one more setting."""
    rng = np.random.default_rng([seed, 80])
    words = lines()[seed % len(lines())]
    if words[0] == "list":
        return words
    changed = [VALUES[last](rng) if last in VALUES else word for last, word in zip(["", *words], words, strict=False)]
    extra = str(
        rng.choice([name for name in VALUES if name not in changed and (name != "--runs" or words[0] == "run")])
    )
    small = [] if "--n" in changed or extra == "--n" else ["--n", VALUES["--n"](rng)]
    return [*changed, *small, extra, VALUES[extra](rng)]


def check(seed: int) -> Called:
    """The exit code of case number `seed`, or what is wrong."""
    words = varied(seed)
    if words[0] in ("run", "stream") and "--out" not in words:
        words = [*words, "--out", "mine.zarr"]
    said = f"seed {seed}: attnflow {shlex.join(words)}"
    with tempfile.TemporaryDirectory() as folder:
        try:
            code, text = _called(words, folder)
        except Exception as error:
            return Called(f"{said}: {error!r}", "raised", True)
        if code not in CODES or "Traceback" in text:
            return Called(f"{said}: {text[-300:]}", f"exit {code}", True)
        missed = _contradiction(words, Path(folder)) if code == 0 and words[0] in ("run", "stream") else ""
    return Called(f"{said} {missed}", f"exit {code}", bool(missed))


def _called(words: list[str], folder: str) -> tuple[int, str]:
    from attnflow.cli.app import main

    out = io.StringIO()
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(out),
        mock.patch.object(sys, "argv", ["attnflow", *words]),
    ):
        try:
            main()
        except SystemExit as ending:
            return int(ending.code or 0), out.getvalue()
    return 0, out.getvalue()


def _contradiction(words: list[str], folder: Path) -> str:
    """A sentence where the saved result has another n, d or beta than the command line asks for, else nothing."""
    asked = dict(itertools.pairwise(words))
    name = folder / asked["--out"]
    if not name.exists():
        return "no result was written"
    run = af.load(name)
    flow = flow_of(run)
    found = {"--n": run.sizes["token"], "--d": flow.dimension, "--beta": flow.beta}
    wrong = [key for key, value in found.items() if key in asked and value is not None and value != float(asked[key])]
    return f"the result has {', '.join(f'{key} {found[key]}' for key in wrong)}" if wrong else ""
