"""Documented command lines with other numbers: an exit code, no traceback, and sentences that agree with the result.

Lines are those of the README, of the documentation and of the help texts. A line that reads a result or a file of
settings reads that of a run with random settings; a trained model is a tiny one with random weights.
"""

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
from tests.helpers import tiny_models
from tests.hunt.said_numbers import contradiction

ROOT = Path(__file__).parents[2]
CODES = (0, 1, 2)  # done, done with a negative answer, refused with a sentence
LONG = ("explore", "bench")  # serves until Ctrl-C; measures for minutes
COMPUTED = ("run", "stream")
RESULT, SETTINGS, MODEL = "recorded.zarr", "recorded.toml", "model"
SCENARIOS = ("polytope", "sphere", "causal", "hyperplanes", "renyi", "kuramoto", "boolean")
FIGURES = ("polytope-2d", "boolean-1d", "hardmax-2d", "leaders", "hyperplanes-2d")
STATEMENTS = ("polytope", "hyperplanes", "boolean-limit", "single-cluster", "energy-usa", "identity-value")
SMALL = {
    "atlas": ["--size", "3", "--n", "4", "--runs", "1"],
    "robustness": ["--n", "6", "--d", "2", "--seeds", "2", "--law", "box"],
    "heads": ["--runs", "1", "--controls", "1"],
    "flow": ["--n", "8", "--subsets", "1", "--layer", "0"],
    "reproduce": ["--quick"],
}
"""Options that keep a command short; the first of an option that is given twice is dropped."""
VALUES = {
    "--n": lambda rng: str(int(rng.integers(1, 30))),
    "--d": lambda rng: str(int(rng.integers(1, 5))),
    "--beta": lambda rng: f"{rng.choice([-1.0, 0.0, 1.0, rng.uniform(0, 30)]):.3g}",
    "--seed": lambda rng: str(int(rng.integers(0, 100))),
    "--end": lambda rng: f"{10 ** rng.uniform(-1, 3):.3g}",
    "--runs": lambda rng: str(int(rng.integers(1, 4))),
    "--mask": lambda rng: str(rng.choice(["full", "causal", "window:2"])),
    "--value": lambda rng: str(rng.choice(["identity", "minus-identity", "pair:0.5", "eigenvalues:1,-0.5"])),
    "--seeds": lambda rng: str(int(rng.integers(2, 4))),
    "--low": lambda rng: f"{-rng.uniform(0, 3):.3g}",
    "--angle": lambda rng: f"{rng.uniform(0, 1.5):.3g}",
    "--depth": lambda rng: str(int(rng.integers(1, 4))),
    "--subsets": lambda rng: str(int(rng.integers(1, 3))),
    "--saves": lambda rng: str(int(rng.integers(2, 40))),
    "--size": lambda rng: str(rng.choice(["column", "page", "slide", "5x3"])),
}


class Called(NamedTuple):
    """One command line, its exit code, and what is wrong with it, if anything."""

    words: str
    answer: str
    is_wrong: bool


def lines() -> list[list[str]]:
    """All documented command lines without those of long commands, each once."""
    from attnflow.cli.app import app

    pages = [ROOT / "README.md", *sorted(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts)]
    found = [line for page in pages for line in _commands_in(page.read_text(encoding="utf-8"))]
    found += [text for command in app.registered_commands for text in _examples(command.epilog or "")]
    split = [tuple(shlex.split(text.split(" >> ")[0])) for text in found]
    return [list(words) for words in dict.fromkeys(split) if words[0] in _options() and words[0] not in LONG]


def _commands_in(text: str) -> list[str]:
    return re.findall(r"^(?: +|\$ |\| `)attnflow ([^#\n`]+)", text, flags=re.MULTILINE)


def _examples(epilog: str) -> list[str]:
    return re.findall(r"attnflow (.+?)(?:, or|$)", epilog)


def _options() -> dict[str, list[str]]:
    """The options of every command by its name."""
    from tests.fuzz.commands import parameters

    return {name: [one.option for one in known if one.option] for name, known in parameters().items()}


def varied(seed: int) -> list[str]:
    """Case number `seed`: a documented line with its numbers changed, and one more setting that its command has."""
    rng = np.random.default_rng([seed, 80])
    words = lines()[seed % len(lines())]
    command, own = words[0], _options()[words[0]]
    words = [command, *_named(words[1:], command, rng)]
    words = [VALUES[last](rng) if _varies(last, command) else word for last, word in itertools.pairwise(["", *words])]
    if command in SMALL:
        words = [command, *_without(words[1:], SMALL[command]), *SMALL[command]]
    free = [name for name in VALUES if name in own and name not in words and _varies(name, command)]
    for name in rng.permutation(free)[: rng.integers(0, 3)]:
        words += [str(name), VALUES[str(name)](rng)]
    if command in (*COMPUTED, "predict") and "--n" not in words and Path(words[1]).suffix != ".toml":
        words += ["--n", VALUES["--n"](rng)]
    if command in COMPUTED:
        words = [*_without(words, ["--out", ""]), "--out", "mine.zarr", *([] if "--json" in words else ["--json"])]
    return words


def _varies(option: str, command: str) -> bool:
    """Whether the value of an option may be any of `VALUES`: a size is a format in some commands, a number in others."""
    return option in VALUES and option in _options()[command] and not (option == "--size" and command == "atlas")


def _named(words: list[str], command: str, rng: np.random.Generator) -> list[str]:
    """The words with files, models, texts, figures and statements that exist."""
    if command == "verify" and "--run" not in words:
        return ["--steps", "0.1,0.5"] if "--steps" in words else [str(rng.choice(STATEMENTS))]
    if command == "reproduce":
        return [str(rng.choice(FIGURES)), *(word for word in words if word.startswith("--"))]
    changed = []
    for word in words:
        if word.endswith(".zarr") and not (changed and changed[-1] == "--out"):
            word = RESULT
        elif word.endswith(".toml") and not (changed and changed[-1] in ("--out", "--save-config")):
            word = SETTINGS
        elif word == "minilm":
            word = MODEL
        elif " " in word and command in ("prompt", "ladder"):
            changed.append(",".join(str(token) for token in rng.integers(1, 9, 5)))
            word = "--ids"
        changed.append(word)
    return changed


def _without(words: list[str], options: list[str]) -> list[str]:
    """The words without options that are among others, and without their values."""
    dropped = {place for place, word in enumerate(words) if word.startswith("--") and word in options}
    return [word for place, word in enumerate(words) if place not in dropped and place - 1 not in dropped]


def check(seed: int) -> Called:
    """The exit code of case number `seed`, or what is wrong."""
    words = varied(seed)
    said = f"seed {seed}: attnflow {shlex.join(words)}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            _prepare(words, folder, seed)
            code, text = _called(words, folder)
        except Exception as error:
            return Called(f"{said}: {error!r}", "raised", True)
        if code not in CODES or "Traceback" in text:
            return Called(f"{said}: {text[-300:]}", f"{words[0]} exit {code}", True)
        missed = contradiction(words, code, text, folder, folder / RESULT)
    return Called(f"{said}: {missed}", f"{words[0]} exit {code}", bool(missed))


def _prepare(words: list[str], folder: Path, seed: int) -> None:
    """Write the result, settings or model that a command line reads."""
    rng = np.random.default_rng([seed, 81])
    if RESULT in words or SETTINGS in words:
        settings = [word for name in ("--n", "--seed", "--beta") for word in (name, VALUES[name](rng))]
        line = ["run", str(rng.choice(SCENARIOS)), *settings, "--end", "5", "--no-picture", "--out", RESULT]
        code, text = _called([*line, "--save-config", SETTINGS], folder)
        assert code in CODES[:2], text
    if MODEL in words:
        tiny_models.write(str(rng.choice(["bert", "gpt2", "llama"])), folder / MODEL)


def _called(words: list[str], folder: Path) -> tuple[int, str]:
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
