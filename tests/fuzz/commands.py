"""Random command lines, made from the signatures of the commands."""

import collections
import inspect
import os
import random
import subprocess
import sys
import tempfile
import time
import types
import typing
from pathlib import Path

from tests.fuzz.worker import Worker, fault_of

SHARE_OF_PROCESSES = 0.005  # command lines that are run once more in a process of their own
SHARE_OF_FITTING = 0.7  # values that fit their parameter, so that many commands do some work
# Words that some setting, command or option knows, and words that none knows.
WORDS = (
    *("polytope", "renyi", "kuramoto", "causal", "sphere", "staircase", "hyperplanes", "rescaled", "euclidean"),
    *("identity", "pair:0.5,2", "diagonal:1e308,1e308", "diagonal:1,2,3", "gaussian", "softmax", "hardmax", "sinkhorn"),
    *("sinkhorn:3", "unnormalised", "full", "window:2", "causal+window:1", "alibi:0.5", "pre", "mix:1", "ngpt", "relu"),
    *("circle", "box:-1,1", "angles:0,1,2", "rk4:0.1", "euler:1e-300", "adaptive8", "linear", "log", "minilm", "0,1"),
    *("scenarios", "figures", "interaction-peak", "eigenvalues", "trace-determinant", "all", "none", "no\x00thing"),
    *("", " ", "-", "x" * 300, "nan", "1,,2", ":", "pair:", "a:b", "ü", "no-such-word", "../..", "{}", "[", "%s"),
)
WHOLES = ("0", "1", "2", "3", "4", "8", "-1", "99999999999999999999", "2147483648", "9" * 400, "1.5", "x", "")
NUMBERS = ("0", "1", "0.5", "-1", "2", "1e-300", "1e300", "1e308", "-1e308", "nan", "inf", "-inf", "1e-9", "x", "")
PATHS = (
    *("out.zarr", "out.nc", "out.png", "out.csv", "out.gif", "out", "", ".", "..", "/", "/proc/x.csv", "/proc/x.zarr"),
    *(
        "x" * 300,
        "missing/x.zarr",
        "file/x.png",
        "folder",
        "folder.zarr",
        "folder.png",
        "run.nc",
        "run.zarr",
        "/dev/null",
    ),
    *("a\x00b.png", "out.tar", "~", "file", "link.png"),
)
# Options that keep a valid command short; a random one of the same name may follow and then counts.
BRIEF = {
    "n": "4", "end": "0.5", "budget": "2", "saves": "3", "size": "2", "runs": "1", "seeds": "2", "controls": "0",
    "subsets": "1",
}  # fmt: skip
LONG = {  # arguments without which a command works for minutes
    "verify": ["--list"],
    "reproduce": ["no-such-figure"],
    "bench": ["--rows", "no-such-row"],
    "explore": ["--host", "no.such.host.invalid", "--no-browser"],
    "robustness": ["--n", "4", "--d", "2"],
}


class Parameter(typing.NamedTuple):
    """A parameter of a command: its name, option (none for an argument) and type."""

    name: str
    option: str | None
    kind: type


def parameters() -> dict[str, list[Parameter]]:
    """The parameters of every command, by its name."""
    from attnflow.cli.app import app

    found = {}
    for command in app.registered_commands:
        function: typing.Any = command.callback
        name = command.name or function.__name__
        found[name] = [_parameter(one) for one in inspect.signature(function, eval_str=True).parameters.values()]
    return found


def _parameter(one: inspect.Parameter) -> Parameter:
    annotation, kind = one.annotation, str
    information: typing.Any = None
    if typing.get_origin(annotation) is typing.Annotated:
        annotation, information = typing.get_args(annotation)[:2]
    while typing.get_args(annotation):
        annotation = next(part for part in typing.get_args(annotation) if part is not types.NoneType)
    kind = annotation if isinstance(annotation, type) else str
    if type(information).__name__ == "ArgumentInfo":
        return Parameter(one.name, None, kind)
    # In an annotation the first name of an option stands in the place of its default.
    names = (getattr(information, "default", None), *(getattr(information, "param_decls", None) or ()))
    declared = [text for text in names if isinstance(text, str) and text.startswith("--")]
    return Parameter(one.name, declared[0] if declared else "--" + one.name.replace("_", "-"), kind)


def random_line(draw: random.Random, known: dict[str, list[Parameter]]) -> list[str]:
    """One command line: a command, its arguments, and some of its options with values that may fit or not."""
    name = draw.choice(list(known))
    options = [one for one in known[name] if one.option]
    line = [name]
    for one in known[name]:
        if one.option is None:
            line += [_value(draw, one) for _ in range(draw.choice((1, 1, 1, 1, 0, 2)))]
    line += [part for one in options if one.name in BRIEF for part in (one.option or "", BRIEF[one.name])]
    line += LONG.get(name, [])
    for one in draw.sample(options, min(len(options), draw.choice((0, 1, 1, 2, 3)))):
        # Only a budget ends a run until t = 1e300 in time.
        is_limited = any(other.name == "budget" for other in options)
        line += [one.option or ""] if one.kind is bool else [one.option or "", _value(draw, one, is_limited)]
    return line


def _value(draw: random.Random, one: Parameter, is_limited: bool = True) -> str:
    if one.name == "end" and not is_limited:
        return draw.choice([number for number in NUMBERS if not number.startswith("1e3")])
    if draw.random() < 0.03:
        return "".join(chr(draw.choice((9, 32, 45, 47, 48, 61, 91, 128, 955, 8364))) for _ in range(draw.randint(0, 9)))
    if draw.random() < SHARE_OF_FITTING and (fitting := _fitting(one)):
        return draw.choice(fitting)
    if one.name in ("path", "run"):
        return draw.choice(PATHS)
    choices = {int: WHOLES, float: NUMBERS, Path: PATHS}.get(one.kind, WORDS)
    return draw.choice(choices)


def _fitting(one: Parameter) -> list[str]:
    """Values that a parameter takes in some command."""
    from attnflow.experiments.catalogue import CATALOGUE
    from attnflow.experiments.vocabulary import SETTINGS

    if one.name in SETTINGS:
        return list(SETTINGS[one.name].words)
    known = {
        "name": list(CATALOGUE), "scenario": list(CATALOGUE), "model": ["minilm"], "path": ["run.nc", "run.zarr"],
        "run": ["run.nc", "run.zarr"], "out": ["out.zarr", "out.nc", "out.png", "out.csv"], "picture": ["out.svg"],
        "movie": ["out.gif"], "text": ["two words"], "layers": ["0"], "heads": ["0", "all", "2"], "layer": ["0", "1"],
    }  # fmt: skip
    return known.get(one.name, {int: ["1", "2", "3", "5"], float: ["0.5", "1", "2"]}.get(one.kind, []))


def prepared_folder(folder: Path) -> Path:
    """A folder with a result, a file, directories and a link, which random paths name."""
    import numpy as np

    import attnflow as af

    flow = af.SphereAttention(af.Head.identity(2))
    run = af.simulate(flow, af.initial.circle(4, rng=0), np.linspace(0, 1, 3), progress=False)
    af.save(run, folder / "run.nc")
    af.save(run, folder / "run.zarr")
    (folder / "file").write_text("no result")
    for name in ("folder", "folder.zarr", "folder.png"):
        (folder / name).mkdir()
    (folder / "link.png").symlink_to("nowhere")
    return folder


def run(seconds: float, seed: int = 0) -> tuple[dict[str, int], list[str]]:
    """Run random command lines for some seconds; returns how many ended how, and what was wrong."""
    draw, known, worker = random.Random(seed), parameters(), Worker()
    counts: collections.Counter[str] = collections.Counter()
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        place = prepared_folder(Path(folder))
        until = time.monotonic() + seconds
        precious = sorted(path.name for path in place.iterdir())
        while time.monotonic() < until:
            line = random_line(draw, known)
            ended = worker.run(line, place)
            counts["command lines"] += 1
            counts[f"exit code {ended.code}"] += 1
            fault = fault_of(ended, place)
            if draw.random() < SHARE_OF_PROCESSES and not fault:
                counts["in processes of their own"] += 1
                fault = _fault_alone(line, place)
            lost = set(precious) - set(os.listdir(place))
            if fault or lost:
                failures.append(f"attnflow {line}: {fault or f'lost {lost}'}")
                for path in place.rglob(".*.part*"):
                    path.unlink(missing_ok=True)
    worker.close()
    return dict(counts), failures


def _fault_alone(line: list[str], place: Path) -> str:
    """What is wrong with the end of a command in a process of its own."""
    if any("\x00" in part for part in line):
        return ""  # the system starts no process with such an argument
    command = [sys.executable, "-m", "attnflow.cli.process", *line]
    finished = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=600)
    if finished.returncode not in (0, 1, 2) or "Traceback" in finished.stderr:
        return f"in a process of its own exit code {finished.returncode}: {finished.stderr[-1500:]}"
    return ""
