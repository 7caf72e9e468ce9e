"""Damaged results and checkpoints: every command that reads one ends with an answer or one sentence."""

import collections
import json
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.fuzz.worker import Worker, fault_of
from tests.helpers import tiny_models

import attnflow as af
from attnflow._common.checks import InputError

OLD_FILES = Path(__file__).parents[1] / "results" / "files_of_0_1_0"
MODELS = ("bert", "gpt2", "llama")
STRANGE: tuple[Any, ...] = (
    *(None, True, -1, 0, 10**30, 1e308, "", "x", "[" * 5000, "{}", "[]", "null", "[1, 2]", '{"is": "Softmax"}'),
    *([], [[]], {}, {"is": "AbstractDynamics"}, "float16", "attnflow stream", "attnflow coalescence", float("nan")),
)


def results(folder: Path) -> list[Path]:
    """One result of every kind and format."""
    circle, times = af.initial.circle(4, rng=0), np.linspace(0, 1, 3)
    flow = af.SphereAttention(af.Head.identity(2))
    causal = af.SphereAttention(af.Head.identity(2), mask=af.masks.causal)
    runs = {
        "one": af.simulate(flow, circle, times, progress=False),
        "many": af.simulate(flow, af.initial.circle(4, rng=0, runs=2), times, progress=False),
        "streamed": af.stream(causal, circle, times, progress=False),
        "merged": af.coalesce(flow, circle, log_end=2.0, progress=False),
    }
    made = [af.save(run, folder / f"{name}{suffix}") for name, run in runs.items() for suffix in (".zarr", ".nc")]
    return [*made, *sorted(OLD_FILES.iterdir())]


def damaged_bytes(draw: random.Random, path: Path) -> None:
    """Flip bits of a file, cut it, repeat a part, empty it or remove it; of a directory, of one file in it."""
    files = sorted(file for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file())
    small = [file for file in files if file.suffix == ".json"]
    file = draw.choice(small if small and draw.random() < 0.6 else files)
    held = bytearray(file.read_bytes())
    place = draw.randrange(len(held)) if held else 0
    kind = draw.choice(("flip", "flip", "flip", "cut", "repeat", "empty", "remove", "text"))
    if kind == "remove":
        file.unlink()
        return
    if kind == "flip" and held:
        for _ in range(draw.choice((1, 1, 3, 20))):
            held[draw.randrange(len(held))] ^= 1 << draw.randrange(8)
    new = {"cut": held[:place], "repeat": held + held[place:], "empty": b"", "text": held[:place] + b"0" + held[place:]}
    file.write_bytes(bytes(new.get(kind, held)))


def damaged_json(draw: random.Random, file: Path) -> None:
    """Replace, remove or add one entry of a JSON file at a random depth."""
    held = json.loads(file.read_text())
    inside = held
    while isinstance(inside, dict) and inside:
        name = draw.choice(sorted(inside))
        if isinstance(inside[name], dict) and inside[name] and draw.random() < 0.8:
            inside = inside[name]
            continue
        if draw.random() < 0.2:
            del inside[name]
        else:
            inside[name] = draw.choice(STRANGE)
        break
    file.write_text(json.dumps(held))


def stamped_with_strange_attribute(draw: random.Random, path: Path, target: Path) -> bool:
    """Write a result with one attribute replaced and with the digest of it; False where no format can hold it."""
    run = af.load(path)
    name = draw.choice(sorted(run.attrs))
    value = draw.choice(STRANGE)
    if isinstance(run.attrs[name], str) and run.attrs[name][:1] in "[{" and draw.random() < 0.7:
        value = _damaged_record(draw, run.attrs[name])
    changed = run.drop_vars(draw.choice(sorted(map(str, run.variables)))) if draw.random() < 0.2 else run
    try:
        af.save(changed.assign_attrs({name: value}), target)
    except InputError:
        return False
    return True


def _damaged_record(draw: random.Random, text: str) -> str:
    """JSON text with one entry replaced at a random depth."""
    held = json.loads(text)
    inside = held
    for _ in range(draw.randint(1, 6)):
        keys: Any = sorted(inside) if isinstance(inside, dict) else range(len(inside))
        if not keys:
            break
        key = draw.choice(keys)
        if isinstance(inside[key], dict | list) and draw.random() < 0.7:
            inside = inside[key]
            continue
        inside[key] = draw.choice(STRANGE)
        break
    return json.dumps(held)


def _result_lines(draw: random.Random, path: Path) -> list[list[str]]:
    lines = [["rerun", str(path)], ["show", str(path), "--out", "x.png", "--overwrite"], ["verify", "--run", str(path)]]
    return [lines[0], draw.choice(lines[1:])]


def _checkpoint_lines(draw: random.Random, path: Path) -> list[list[str]]:
    untrained = ["--untrained"] if draw.random() < 0.3 else []
    return [["heads", str(path), "--runs", "0", "--controls", "0", *untrained], ["prompt", str(path), "1,2,3", "--ids"]]


def run(seconds: float, seed: int = 0) -> tuple[dict[str, int], list[str]]:
    """Damage files for some seconds; returns how many commands ended how, and what was wrong."""
    draw, worker = random.Random(seed), Worker()
    counts: collections.Counter[str] = collections.Counter()
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        whole, place = Path(name) / "whole", Path(name) / "place"
        whole.mkdir()
        place.mkdir()
        made = results(whole)
        checkpoints = [tiny_models.write(model, whole / model) for model in MODELS]
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            is_result = draw.random() < 0.75
            source = draw.choice(made if is_result else checkpoints)
            target = place / f"damaged{source.suffix}"
            if not _damage(draw, source, target):
                continue
            counts["damaged results" if is_result else "damaged checkpoints"] += 1
            lines: Callable = _result_lines if is_result else _checkpoint_lines
            for line in lines(draw, target):
                ended = worker.run(line, place)
                counts[f"exit code {ended.code}"] += 1
                if fault := fault_of(ended, place):
                    failures.append(f"{source.name}, file {sum(counts.values())}: attnflow {line}: {fault}")
            shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
    worker.close()
    return dict(counts), failures


def _damage(draw: random.Random, source: Path, target: Path) -> bool:
    """Write a damaged copy; False where there is none."""
    is_result = source.suffix in (".zarr", ".nc")
    if is_result and draw.random() < 0.4:
        return stamped_with_strange_attribute(draw, source, target)
    (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    jsons = sorted(target.rglob("*.json")) if target.is_dir() else []
    if jsons and draw.random() < 0.4:
        damaged_json(draw, draw.choice(jsons))
    else:
        damaged_bytes(draw, target)
    return True
