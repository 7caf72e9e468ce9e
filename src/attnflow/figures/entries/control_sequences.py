"""Figure of the number of blocks that map sequences to outputs, against the number that the theorem states."""

from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress, reporting
from attnflow.control.sequences import interpolate_sequences
from attnflow.figures.figure import Figure
from attnflow.model.attention import Hardmax, Softmax
from attnflow.show.parts.panels import Line, Lines, panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.style import line_colour

RULES = ("hardmax", "softmax")


def compute_sequences(
    progress: Progress, *, sequences: list[int], lengths: list[int], d: int, outputs: int, beta: float, seed: int
) -> xr.Dataset:
    """Blocks, stated blocks and largest errors over (rule, N, n)."""
    shape = (len(RULES), len(sequences), len(lengths))
    blocks, stated, errors = np.zeros(shape, int), np.zeros(shape, int), np.zeros(shape)
    with reporting(progress) as report:
        for done, index in enumerate(np.ndindex(shape)):
            k, i, j = index
            rng = np.random.default_rng((seed, i, j))
            tokens = rng.normal(size=(sequences[i], lengths[j], d))
            wanted = [rng.normal(size=(outputs, d)) for _ in range(sequences[i])]
            found = interpolate_sequences(tokens, wanted, (Hardmax(), Softmax(beta))[k], rng=rng)
            blocks[index], stated[index], errors[index] = found.blocks, found.stated_blocks, found.terminal_error
            report((done + 1) / blocks.size, f"{sequences[i]} sequences of {lengths[j]} tokens")
    dims = ("rule", "N", "n")
    variables = {"blocks": (dims, blocks), "stated": (dims, stated), "error": (dims, errors)}
    return xr.Dataset(variables, {"rule": list(RULES), "N": sequences, "n": lengths}, {"d": d, "outputs": outputs})


def draw_sequences(data: xr.Dataset) -> Picture:
    """Draw blocks against N beside the stated numbers, and the largest errors against n."""
    counts = data.N.values
    lines = [
        Line(counts, data.stated.sel(rule=rule).isel(n=0), f"stated, {rule}", line_colour(k), "--")
        for k, rule in enumerate(RULES)
    ]
    for place, length in enumerate(data.n.values.tolist()):
        for k, rule in enumerate(RULES):
            mark = "os^vD"[place % 5]
            found = data.blocks.sel(rule=rule, n=length)
            lines.append(Line(counts, found, f"n = {length}" if k == 0 else "", line_colour(2 + place), "", mark))
    left = Lines(lines, xlabel="number of sequences N", ylabel="blocks", xticks=counts.tolist(),
                 ylim=(0, None), columns=2)  # fmt: skip
    errors = [
        Line(data.n, data.error.sel(rule=rule).max("N"), rule, line_colour(k), "-", "o") for k, rule in enumerate(RULES)
    ]
    right = Lines(errors, xlabel="tokens of a sequence n", ylabel="largest error", xscale="log", yscale="log",
                  xticks=data.n.values.tolist())  # fmt: skip
    caption = (
        f"Random sequences in d = {data.attrs['d']}, {data.attrs['outputs']} outputs each. {_sentence(data)} Right: "
        f"rounding errors of the blocks, the largest over N."
    )
    return panel_picture([[left, right]], "Blocks that interpolate sequences", caption, width=4.6, heights=[4.2])


def _sentence(data: xr.Dataset) -> str:
    """Whether the number of blocks depends on n and is within the stated one, in all cases."""
    spread = int((data.blocks.max("n") - data.blocks.min("n")).max())
    within = int((data.blocks <= data.stated).sum())
    return (
        f"Blocks differ by {spread} over n; they are at most the stated number in {within} of {data.blocks.size} "
        f"cases, and the least difference is {int((data.stated - data.blocks).min())}."
    )


def sequences_numbers(data: xr.Dataset) -> dict[str, Any]:
    """Blocks and stated blocks for every number of sequences, and the largest error."""
    numbers: dict[str, Any] = {}
    for rule in RULES:
        for count in data.N.values.tolist():
            at = data.sel(rule=rule, N=count).isel(n=-1)
            numbers[f"blocks, {rule}, N = {count}"] = f"{int(at.blocks)}, {int(at.stated)} stated"
    return numbers | {"largest error": float(data.error.max())}


SEQUENCES = Figure(
    id="steer-sequences",
    source="arXiv:2502.02270: number of blocks that interpolate sequences",
    title="Blocks that interpolate sequences, against the number that the theorem states",
    shows="The number of layers of a construction that maps sequences to outputs, against the number of sequences and "
    "their length. Beside it are the numbers that the theorem states for hardmax and softmax.",
    deviates="The publication has no such figure. The theorem is quoted second-hand, and the construction is "
    "attnflow's, so that its number of blocks is another one.",
    compute=compute_sequences,
    draw=draw_sequences,
    numbers=sequences_numbers,
    settings={"sequences": [2, 5, 10, 20], "lengths": [10, 30, 100], "d": 16, "outputs": 3, "beta": 2.0, "seed": 0},
    quick={"sequences": [2, 3], "lengths": [4], "d": 4},
    seconds=(90.0, 10.0),
)
