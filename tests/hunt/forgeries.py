"""Forged and cut runs against `verify`: a run that does not follow its flow gets no verdict but `not_applicable`."""

import dataclasses
import functools
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

import attnflow as af
from attnflow.results import records
from attnflow.results.provenance import flow_of

SAME_VELOCITY = 1e-4  # over the largest velocity: flows that differ by less at all saved states may both be followed
KINDS = 6  # of honest runs


class Forged(NamedTuple):
    """One forged or cut run, and what `verify` said of it."""

    words: str
    answer: str
    is_wrong: bool


def check(seed: int) -> Forged:
    """The answer to case number `seed`: `refused`, `kept` for a cut run, `same` where it obeys; or what is wrong."""
    rng = np.random.default_rng([seed, 79])
    base = seed % KINDS
    name = str(rng.choice([*FORGERIES, *CUTS]))
    words = f"seed {seed}: {name} of {honest(base, 0).attrs['title']}"
    try:
        run = (FORGERIES | CUTS)[name](base, rng)
        if run is None:
            return Forged(words, "same", False)
        verdicts = {one.verdict for one in af.verify(run)}
    except Exception as error:
        return Forged(f"{words}: {error!r}", "raised", True)
    if name in CUTS:
        return Forged(words, "failed" if "fails" in verdicts else "kept", "fails" in verdicts)
    if "holds" in verdicts:
        return Forged(words, "held", True)
    return Forged(words, "refused" if verdicts == {"not_applicable"} else "undecided", False)


def controls() -> list[str]:
    """The honest runs of which no statement holds: there should be none."""
    verdicts = {name: {one.verdict for one in af.verify(honest(name, 0))} for name in range(KINDS)}
    return [honest(base, 0).attrs["title"] for base, found in verdicts.items() if "holds" not in found]


@functools.cache
def honest(base: int, seed: int) -> xr.Dataset:
    """An honest run of which some statement holds."""
    box, sphere, times = af.initial.box(8, 2, rng=seed), af.initial.sphere(8, 3, rng=seed), np.linspace(0, 20, 41)
    identity, space = af.Head.identity(2), af.Head.identity(3)
    flows = [
        ("polytope", af.RescaledAttention(identity), box, times),
        ("hyperplanes", af.RescaledAttention(af.Head.bilinear(np.eye(2), np.diag([2.0, 1.0]))), box, times / 2),
        ("plane", af.EuclideanAttention(identity), box, times / 4),
        ("sphere", af.SphereAttention(space), sphere, times),
        ("causal", af.SphereAttention(space, mask=af.masks.causal), sphere, 10 * times),
        ("hardmax", af.RescaledAttention(identity, af.Hardmax()), box, times),
    ]
    title, flow, tokens, saved = flows[base]
    return af.simulate(flow, tokens, saved, progress=False).assign_attrs(title=title)


# Forgeries


def _under(base: int, flow: Any) -> xr.Dataset | None:
    """The run with the record of another flow; None where that has the same velocities."""
    run = honest(base, 0)
    states = list(zip(run.tokens.values, run.time.values, strict=True))
    both = [[af.velocity(model, state, time) for state, time in states] for model in (flow, flow_of(run))]
    if np.abs(np.subtract(*both)).max() < SAME_VELOCITY * np.abs(both[1]).max():
        return None
    return run.assign_attrs(flow=json.dumps(records.record(flow)))


def _other_beta(base: int, rng: np.random.Generator) -> xr.Dataset | None:
    flow = flow_of(honest(base, 0))
    if flow.beta is None:
        return _under(base, dataclasses.replace(flow, attention=af.Softmax(1.0)))
    return _under(base, dataclasses.replace(flow, attention=af.Softmax(float(rng.uniform(1.2, 3) * flow.beta))))


def _other_value(base: int, rng: np.random.Generator) -> xr.Dataset | None:
    flow = flow_of(honest(base, 0))
    value = np.asarray(flow.heads[0].value_matrix)
    changed = value * rng.uniform(1.1, 2) if rng.random() < 0.5 else value + 0.2 * rng.normal(size=value.shape)
    return _under(base, dataclasses.replace(flow, heads=(af.Head.bilinear(np.eye(len(value)), changed),)))


def _other_mask(base: int, rng: np.random.Generator) -> xr.Dataset | None:
    del rng
    flow = flow_of(honest(base, 0))
    mask = af.masks.full if flow.mask is af.masks.causal or base == 4 else af.masks.causal
    return _under(base, dataclasses.replace(flow, mask=mask))


def _with_tokens(base: int, tokens: np.ndarray) -> xr.Dataset:
    """The honest run with other tokens between its ends; on the sphere they are made unit vectors."""
    run = honest(base, 0)
    tokens = tokens / np.linalg.norm(tokens, axis=-1, keepdims=True) if flow_of(run).is_on_sphere else tokens.copy()
    tokens[0], tokens[-1] = run.tokens.values[0], run.tokens.values[-1]
    return run.assign(tokens=run.tokens.copy(data=tokens))


def _replaced(base: int, rng: np.random.Generator) -> xr.Dataset:
    return _with_tokens(base, honest(base, int(rng.integers(1, 4))).tokens.values)


def _shuffled(base: int, rng: np.random.Generator) -> xr.Dataset | None:
    tokens = honest(base, 0).tokens.values
    order = np.r_[0, 1 + rng.permutation(len(tokens) - 2), len(tokens) - 1]
    return _with_tokens(base, tokens[order])


def _jump(base: int, rng: np.random.Generator) -> xr.Dataset:
    tokens = honest(base, 0).tokens.values.copy()
    time, token = int(rng.integers(1, len(tokens) - 1)), int(rng.integers(tokens.shape[1]))
    direction = rng.normal(size=tokens.shape[2])
    if flow_of(honest(base, 0)).is_on_sphere:
        direction -= (direction @ tokens[time, token]) * tokens[time, token]
    size = rng.uniform(0.01, 0.3) * np.abs(tokens[time]).max()
    tokens[time, token] += size * direction / np.linalg.norm(direction)
    return _with_tokens(base, tokens)


def _noise(base: int, rng: np.random.Generator) -> xr.Dataset:
    tokens = honest(base, 0).tokens.values
    sizes = np.abs(tokens).max(axis=(1, 2), keepdims=True)
    return _with_tokens(base, tokens + 10 ** rng.uniform(-4, -1) * sizes * rng.normal(size=tokens.shape))


def _other_times(base: int, rng: np.random.Generator) -> xr.Dataset:
    run = honest(base, 0)
    factor = float(rng.uniform(1.2, 3))
    requested = json.dumps((factor * run.time.values).tolist())
    slower = run.assign_coords(time=factor * run.time).assign(final_time=factor * run.final_time)
    return slower.assign_attrs(requested_times=requested)


def _swapped(base: int, rng: np.random.Generator) -> xr.Dataset:
    """The path of one token in the place of another's, from its second time on."""
    tokens = honest(base, 0).tokens.values.copy()
    first, second = rng.choice(tokens.shape[1], 2, replace=False)
    tokens[1:-1, [first, second]] = tokens[1:-1, [second, first]]
    return _with_tokens(base, tokens)


FORGERIES: dict[str, Callable[[int, np.random.Generator], xr.Dataset | None]] = {
    "another beta": _other_beta,
    "another V": _other_value,
    "another mask": _other_mask,
    "replaced tokens": _replaced,
    "shuffled times": _shuffled,
    "a jump": _jump,
    "noise": _noise,
    "other times": _other_times,
    "two tokens swapped": _swapped,
}


# Cuts, which leave a run that follows its flow


def _truncated(base: int, rng: np.random.Generator) -> xr.Dataset:
    first, last = sorted(rng.choice(41, 2, replace=False))
    return honest(base, 0).isel(time=slice(int(first), int(last) + 1))


def _thinned(base: int, rng: np.random.Generator) -> xr.Dataset:
    kept = np.sort(rng.choice(41, int(rng.integers(1, 12)), replace=False))
    return honest(base, 0).isel(time=kept)


CUTS = {"truncation": _truncated, "thinning": _thinned}
