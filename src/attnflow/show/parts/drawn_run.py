"""`DrawnRun`: the complete configurations of one run, their clusters, the title and the caption."""

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError, require_count, require_positive_number
from attnflow._common.plain import evenly_spaced
from attnflow.analyse import clusters
from attnflow.experiments.gathering import Gathering, counted, gathering
from attnflow.experiments.headline import headline_parts
from attnflow.model.dynamics import AbstractDynamics
from attnflow.results.provenance import flow_of, require_known_axes
from attnflow.show.parts.style import colours
from attnflow.show.parts.subspaces import AffineSubspace
from attnflow.show.parts.symbols import at_time, coordinate, typeset

MOST_COUNTED_PAIRS = 40_000_000  # over all times: about ten seconds, since all pairs are close once tokens have met


@dataclass(frozen=True)
class DrawnRun:
    """One run of a dataset, as it is drawn."""

    times: np.ndarray
    tokens: np.ndarray
    """(time, token, coordinate), finite; divided by the largest norm at each time if `is_scaled`."""
    labels: np.ndarray
    """Cluster, line or plane of each token at the end; 0 is the one with the most tokens."""
    distance: float
    """Tokens closer than this are one cluster."""
    is_sphere: bool
    letter: str
    """Letter of the coordinates: x, or z for rescaled tokens."""
    is_scaled: bool
    is_followed: bool
    """Whether tokens between the first and the last time are known."""
    title: str
    caption: str
    gathered: Gathering | None = None
    """Parallel lines or planes on which the final tokens lie, in the order of `labels`; None for clusters."""
    is_noisy: bool = False
    """Whether noise spreads the tokens, so that they form no clusters."""
    words: tuple[str, ...] = ()
    """Words of a prompt, one a token; empty if the tokens are no words."""

    @property
    def dimension(self) -> int:
        """The dimension d of the space."""
        return self.tokens.shape[-1]

    @property
    def cluster_sizes(self) -> np.ndarray:
        """Number of tokens in each cluster, the largest first."""
        return np.bincount(self.labels)

    @property
    def token_colours(self) -> np.ndarray:
        """Colour of each token, which is that of its cluster."""
        return colours(len(self.cluster_sizes))[self.labels]

    @property
    def subspaces(self) -> tuple[AffineSubspace, ...]:
        """The lines or planes on which the final tokens lie, in the colours of their tokens."""
        if self.gathered is None:
            return ()
        shades = colours(len(self.gathered.levels))
        return tuple(
            AffineSubspace(self.gathered.rows, level, shade)
            for level, shade in zip(self.gathered.levels, shades, strict=True)
        )

    @property
    def tokens_at_one_place(self) -> np.ndarray:
        """Number of tokens within the cluster distance of each final token; 1 on lines and planes and with noise."""
        is_spread = self.gathered is not None or self.is_noisy
        return np.ones(len(self.labels), int) if is_spread else self.cluster_sizes[self.labels]

    @property
    def groups_name(self) -> str:
        """What the tokens gather in: clusters, or parallel lines or planes."""
        return counted(2, 0 if self.gathered is None else self.gathered.dimension).removeprefix("2 ")

    def coordinate_name(self, index: int) -> str:
        """Label of the axis of a coordinate."""
        name = coordinate(self.letter, None if self.dimension == 1 else index + 1)
        return name + (" / largest norm" if self.is_scaled else "")

    def times_of_interest(self, most: int) -> np.ndarray:
        """At most `most` positions in `times`, evenly spread, with the first and the last."""
        return evenly_spaced(len(self.times), most)

    def cluster_counts(self) -> tuple[np.ndarray, np.ndarray]:
        """Times, and the number of clusters, or of parallel lines or planes, at each."""
        affordable = MOST_COUNTED_PAIRS // len(self.labels) ** 2
        chosen = self.times_of_interest(int(np.clip(affordable, 20, 400)))
        # Tokens on one line or plane {x : rows x = level} have the same coordinates rows x.
        places = self.tokens if self.gathered is None else self.tokens @ self.gathered.rows.T
        counts = [clusters.labels(places[index], self.distance).max() + 1 for index in chosen]
        return self.times[chosen], np.array(counts)


def run_to_draw(run: Any, member: int | None = None, *, distance: float | None = None) -> DrawnRun:
    """Run number `member` of a dataset, with its clusters, title and caption; the title names the model."""
    one = one_run(run, member)
    kind = flow_kind(run)
    times, tokens, is_followed = _complete_configurations(one, kind == "SphereAttention")
    sizes = _largest_norms(tokens)
    is_sphere = kind == "SphereAttention" or (kind == "" and bool(np.allclose(np.linalg.norm(tokens, axis=-1), 1)))
    growth = sizes[-1] / sizes[0] if sizes[0] > 0 else 1.0
    # Beyond a growth of 50 the first tokens would be one dot at the origin.
    is_scaled = kind == "EuclideanAttention" and bool(growth > 50)
    if is_scaled:
        tokens = tokens / np.where(sizes > 0, sizes, 1)[:, None, None]
    distance = distance or 0.01 * (1.0 if is_sphere or is_scaled else _initial_size(run, sizes[0]))
    require_positive_number(distance, "distance")
    gathered = None if is_scaled else _subspaces_of(run, tokens[-1], distance)
    labels = _largest_first(clusters.labels(tokens[-1], distance)) if gathered is None else gathered.labels
    flow = recorded_flow(run)
    is_noisy = flow is not None and flow.noise is not None
    labels = np.zeros_like(labels) if is_noisy else labels  # tokens that noise spreads form no clusters
    count = _count_sentence(labels, distance, gathered) if not is_noisy else _tokens_words(len(labels))
    notes = [count, *_run_notes(run, member or 0), *_growth_notes(is_scaled, growth)]
    notes += [] if is_followed else ["Only the first and last tokens were kept"]
    return DrawnRun(
        times=times,
        tokens=tokens,
        labels=labels,
        distance=distance,
        is_sphere=is_sphere,
        letter="z" if kind == "RescaledAttention" else "x",
        is_scaled=is_scaled,
        is_followed=is_followed,
        title=title_of(run, times[0], times[-1]),
        caption=typeset(". ".join(notes) + "."),
        gathered=gathered,
        is_noisy=is_noisy,
        words=tuple(str(word) for word in one.word.values) if "word" in one.coords else (),
    )


def one_run(run: Any, member: int | None) -> xr.Dataset:
    """Run number `member` of an ensemble, the first if it is None, or the only run."""
    if not isinstance(run, xr.Dataset) or not {"tokens", "initial_tokens"} & set(run.variables):
        raise InputError(f"`run` must be a dataset made by `simulate`, but it is {_described(run)}.")
    if "time" not in run.coords:
        raise InputError(
            "`run` must have tokens at times, but it has merges, made by `coalesce`. "
            "`show.staircase` and `show.merge_tree` draw it."
        )
    require_known_axes(run.initial_tokens if "initial_tokens" in run else run.tokens, "`run`")
    member = 0 if member is None else member
    require_count(member, "member", least=0)
    runs = run.sizes.get("run", 1)
    if member >= runs:
        raise InputError(f"`member` must be one of the runs, 0 to {runs - 1}, but it is {member}.")
    return run.isel(run=member) if "run" in run.dims else run


def require_tokens_over_time(run: xr.Dataset) -> None:
    """Require a run whose tokens were kept over time."""
    if "tokens" not in run:
        raise InputError("`times` needs tokens over time, but `run` holds only the first and last. Leave it out.")


def flow_kind(run: xr.Dataset) -> str:
    """Name of the class of the flow, or an empty text; a flow with a user's function cannot be built again."""
    return json.loads(run.attrs.get("flow", "{}")).get("is", "")


def title_of(run: xr.Dataset, start: float, end: float) -> str:
    """The name of the model, and the first and last times on a second line."""
    return f"{default_title(run)}\n{at_time(start)} to {end:.4g}"


def recorded_flow(run: xr.Dataset) -> AbstractDynamics | None:
    """The flow that a dataset records; None where it records none, or one with a user's function."""
    try:
        return flow_of(run)
    except InputError:
        return None


def with_headline(drawn: DrawnRun, run: xr.Dataset, member: int | None) -> DrawnRun:
    """A drawn run under its headline: the model, and the outcome that the run shows."""
    flow = recorded_flow(run)
    if flow is None or "final_tokens" not in run:
        return drawn
    return replace(drawn, title=typeset("\n".join(headline_parts(flow, one_run(run, member)))))


def default_title(run: xr.Dataset) -> str:
    """The name of the model and the space of a run."""
    d = run.sizes["coordinate"]
    space = rf"$\mathbb{{R}}^{{{d}}}$" if d > 1 else r"$\mathbb{R}$"
    on_sphere = {2: "on the circle", 3: "on the sphere"}.get(d, f"on the sphere of {space}")
    names = {
        "SphereAttention": f"Attention {on_sphere}",
        "RescaledAttention": f"Rescaled attention in {space}",
        "EuclideanAttention": f"Attention in {space}",
    }
    return names.get(flow_kind(run), f"Tokens in {space}")


def _complete_configurations(one: xr.Dataset, is_sphere: bool) -> tuple[np.ndarray, np.ndarray, bool]:
    """Times and tokens until the run ended, without the NaN after it, and whether tokens were saved over time."""
    times, tokens = one.time.values[:1].astype(float), _initial_tokens(one, is_sphere)[None]
    is_followed = "tokens" in one
    if is_followed:
        kept = one.tokens.transpose("time", "token", "coordinate").values.astype(float)
        is_complete = np.logical_and.accumulate(np.isfinite(kept).all(axis=(1, 2)))
        if is_complete[0]:
            times, tokens = one.time.values[is_complete].astype(float), kept[is_complete]
    # A run that stopped between two saved times ended later than the last of them.
    if "final_time" in one and one.final_time > times[-1] and np.all(np.isfinite(one.final_tokens)):
        times = np.append(times, float(one.final_time))
        tokens = np.concatenate([tokens, one.final_tokens.values.astype(float)[None]])
    return times, tokens, is_followed


def _initial_tokens(one: xr.Dataset, is_sphere: bool) -> np.ndarray:
    first = one.initial_tokens if "initial_tokens" in one else one.tokens.isel(time=0)
    first = first.transpose("token", "coordinate").values.astype(float)
    # Models whose tokens have lengths start from tokens of any length.
    return first / np.linalg.norm(first, axis=-1, keepdims=True) if is_sphere else first


def _largest_norms(tokens: np.ndarray) -> np.ndarray:
    """Largest norm at each time, formed without overflow for numbers near the end of the range."""
    largest = np.abs(tokens).max(axis=(1, 2))
    safe = np.where(largest > 0, largest, 1)
    return largest * np.linalg.norm(tokens / safe[:, None, None], axis=-1).max(axis=1)


def _initial_size(run: xr.Dataset, otherwise: float) -> float:
    """Largest norm at the start over all runs, so that clusters of all runs are counted with one distance."""
    if "initial_tokens" in run:
        otherwise = float(np.linalg.norm(run.initial_tokens.values, axis=-1).max())
    return otherwise if otherwise > 0 else 1.0


def _largest_first(labels: np.ndarray) -> np.ndarray:
    sizes = np.bincount(labels)
    order = np.argsort(-sizes, kind="stable")
    return np.argsort(order)[labels]


def _subspaces_of(run: xr.Dataset, tokens: np.ndarray, distance: float) -> Gathering | None:
    """The lines or planes on which tokens lie, those with most tokens first; None where tokens form clusters."""
    flow = recorded_flow(run)
    found = None if flow is None else gathering(flow, tokens, distance)
    if found is None or found.dimension == 0:
        return None
    order = np.argsort(-np.bincount(found.labels), kind="stable")
    return replace(found, labels=np.argsort(order)[found.labels], levels=found.levels[order])


def _count_sentence(labels: np.ndarray, distance: float, gathered: Gathering | None) -> str:
    count, tokens = labels.max() + 1, _tokens_words(len(labels))
    if gathered is not None:
        return f"{tokens} on {gathered.words} (closer than {distance:.2g})"
    return f"{tokens}, {count} cluster{'' if count == 1 else 's'} (closer than {distance:.2g})"


def _tokens_words(n: int) -> str:
    return "1 token" if n == 1 else f"{n} tokens"


def _run_notes(run: xr.Dataset, member: int) -> list[str]:
    """Number of the run, and the outcome of a run that failed or ended before its last time."""
    notes = [f"Run {member + 1} of {run.sizes['run']} (index {member})"] if "run" in run.dims else []
    outcomes = json.loads(run.attrs.get("outcomes", "[]"))
    if member < len(outcomes) and not reached_end(one_run(run, member)):
        notes.append(outcomes[member].rstrip("."))
    return notes


def reached_end(one: xr.Dataset) -> bool:
    """Whether a run did not fail and ended at the last time that was asked for."""
    if "final_time" not in one or "requested_times" not in one.attrs:
        return True
    end = json.loads(one.attrs["requested_times"])[-1]
    # A run in float32 ends at the float32 number next to the time asked for.
    return not bool(one.failed) and bool(np.isclose(one.final_time, end, rtol=1e-6, atol=0.0))


def _growth_notes(is_scaled: bool, growth: float) -> list[str]:
    if not is_scaled:
        return []
    times = f"{growth:,.0f}" if growth < 1e6 else f"{growth:.1e}"
    return [f"Tokens grew {times} times: drawn divided by the largest norm at each time"]


def _described(value: Any) -> str:
    return "one without tokens" if isinstance(value, xr.Dataset) else f"an object of type {type(value).__name__}"
