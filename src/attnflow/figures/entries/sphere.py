"""Figures of arXiv:2312.10794: clustering on the sphere, and inner products over time."""

from typing import Any

import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp

from attnflow._common.progress import Progress, parts_of
from attnflow.analyse import circle, clusters, energy, order
from attnflow.experiments.gathering import counted
from attnflow.figures.entries import phase_diagrams
from attnflow.figures.entries.joined_runs import joined, separated
from attnflow.figures.figure import Figure
from attnflow.integrate.simulate import simulate
from attnflow.model import initial
from attnflow.model.attention import Softmax
from attnflow.model.flows import SphereAttention
from attnflow.model.heads import Head
from attnflow.show.parts.drawn_run import run_to_draw
from attnflow.show.parts.panels import panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.ridgeline import RidgelinePanel
from attnflow.show.parts.sphere_panel import sphere_movie, sphere_panels
from attnflow.show.parts.view3d import camera_of
from attnflow.theorems.verify import verify

PAPER = "arXiv:2312.10794"
CLUSTER_DISTANCE = 0.05  # tokens closer than this cannot be told apart in the picture


def _flow(d: int, beta: float) -> SphereAttention:
    return SphereAttention(Head.identity(d), Softmax(beta))


# -- Clustering on S^2 -------------------------------------------------------------------------------------------------


def compute_clustering(
    progress: Progress, *, n: int, betas: list[float], end: float, saves: int, frames: int, seed: int
) -> xr.Dataset:
    """Runs of one start at several beta."""
    tokens, times = initial.sphere(n, 3, rng=seed), np.linspace(0, end, saves)
    runs = [
        simulate(_flow(3, beta), tokens, times, rng=seed, progress=share)
        for beta, share in zip(betas, parts_of(progress, len(betas)), strict=True)
    ]
    data = joined(runs, xr.Variable("beta", betas))
    return data.assign_attrs(frames=frames)


def draw_clustering(data: xr.Dataset) -> Picture:
    """Draw one row of globes for each beta."""
    end = float(data.time[-1])
    times = [0.0, end / 5, end / 2, end]
    drawn = {beta: run_to_draw(run, distance=CLUSTER_DISTANCE) for beta, run in _by_beta(data)}
    camera = camera_of(next(iter(drawn.values())).tokens[-1])  # one for all rows, which share their start
    rows = [sphere_panels(run, times, f"β = {beta:g}", camera) for beta, run in drawn.items()]
    counts = [f"{counted(len(run.cluster_sizes), dimension=0)} at β = {beta:g}" for beta, run in drawn.items()]
    caption = (
        "The same start in every row. Colours: clusters at the last time of the row. "
        "Hollow dots: start. The far side is faint."
    )
    title = f"Attention on the sphere at t = {end:g}: {', '.join(counts)}"
    return panel_picture(rows, title, caption, least=1.4)


def clustering_numbers(data: xr.Dataset) -> dict:
    """Clusters and energy at the end, for each beta."""
    numbers = {}
    for beta, run in _by_beta(data):
        numbers[f"clusters at t = {float(run.time[-1]):g}, beta = {beta:g}"] = int(
            clusters.count(run, CLUSTER_DISTANCE)[-1]
        )
        heights = energy.normalised(run.isel(time=[0, -1]), beta).values
        numbers[f"energy at the start and at the end, beta = {beta:g}"] = f"{heights[0]:.4f}, {heights[1]:.4f}"
    return numbers


def clustering_verdicts(data: xr.Dataset) -> list:
    """Verdicts on a single cluster and on a rising energy, for each beta."""
    only = ["single-cluster", "energy-sa"]
    return [verdict for run in separated(data) for verdict in verify(run, only=only)]


def clustering_movie(data: xr.Dataset) -> Any:
    """Movie of the run with the first beta."""
    beta, run = _by_beta(data)[0]
    title = f"Attention on the sphere, β = {beta:g}"
    return sphere_movie(run_to_draw(run, distance=CLUSTER_DISTANCE), title, most=data.attrs["frames"])


def _by_beta(data: xr.Dataset) -> list[tuple[float, xr.Dataset]]:
    return [(float(beta), run) for beta, run in zip(data.beta.values, separated(data), strict=True)]


# -- Inner products over time ------------------------------------------------------------------------------------------


def compute_cosines(
    progress: Progress, *, n: int, d: int, beta: float, times: list[float], bins: int, seed: int
) -> xr.Dataset:
    """One run, the histograms of its cosines, and the cosine of tokens that start orthogonal."""
    run = simulate(_flow(d, beta), initial.sphere(n, d, rng=seed), np.array(times), rng=seed, progress=progress)
    return run.assign(
        density=order.cosine_histogram(run, bins), curve=("time", equiangular_cosines(n, beta, times))
    ).assign_attrs(beta=beta)


def equiangular_cosines(n: int, beta: float, times: Any) -> np.ndarray:
    """Cosine at each time of n tokens that start orthogonal."""
    rate = lambda _, rho: circle.equiangular_rate(rho, n, beta)
    return solve_ivp(rate, (times[0], times[-1]), [0.0], t_eval=times, rtol=1e-10, atol=1e-12).y[0]


def draw_cosines(data: xr.Dataset) -> Picture:
    """Draw the histograms above each other."""
    names = [f"t = {time:g}" for time in data.time.values]
    n, d = data.sizes["token"], data.sizes["coordinate"]
    ridges = RidgelinePanel(
        data.cosine.values,
        data.density.values,
        names,
        data.curve.values,
        mark_label="where tokens that start orthogonal are",
        xlabel="inner product",
        xlim=(-0.3, 1.02),
    )
    caption = f"{n} tokens in {d} dimensions, β = {data.attrs['beta']:g}. Every histogram is drawn to its own height."
    title = "Inner products between distinct tokens over time"
    return panel_picture([[ridges]], title, caption, width=6.0, heights=[4.6])


def cosine_numbers(data: xr.Dataset) -> dict:
    """The mean cosine at each time, and its largest distance from the curve."""
    means = order.mean_cosine(data)
    return {
        **{f"mean inner product at t = {float(one.time):g}": float(one) for one in means},
        "largest distance of the mean from the curve": float(np.abs(means - data.curve).max()),
    }


def cosine_verdicts(data: xr.Dataset) -> list:
    """Verdicts on whether the cosines follow the curve, and on the energy."""
    return verify(data, only=["phase-curve", "energy-sa"])


FIGURES = (
    Figure(
        id="sphere-clustering",
        source=f"{PAPER}, figure of clustering on S^2",
        title="Clustering on the sphere",
        shows="Tokens on the sphere at several times, from one start at several β. Colours are the clusters at the "
        "last time, whose numbers stand in the title; in theory one cluster is left in the end.",
        deviates="The published code takes Euler steps of 0.1 and projects; here an adaptive method keeps the error "
        "below 1e-8. A second row at a larger β is added.",
        compute=compute_clustering,
        draw=draw_clustering,
        numbers=clustering_numbers,
        settings={"n": 64, "betas": [1.0, 9.0], "end": 15.0, "saves": 121, "frames": 60, "seed": 1},
        quick={"saves": 41, "frames": 8},
        seconds=(14.0, 7.0),
        verdicts=clustering_verdicts,
        movie=clustering_movie,
        runs=lambda data: {f"β = {beta:g}": run for beta, run in _by_beta(data)},
    ),
    Figure(
        id="phase-diagrams",
        source=f"{PAPER}, phase diagrams; arXiv:2512.01868",
        title="Phase diagrams in time and β",
        shows="The share of pairs of tokens that are close, against time and β, in several dimensions. The curve is "
        "the time at which tokens that start orthogonal are that close; random tokens of high dimension start nearly "
        "orthogonal.",
        deviates="The published curve is that of 128 tokens laid over runs of 32; here it is drawn for the n of the "
        "runs, the published one dotted. There are fewer starts than the published 2048, with the "
        "errors that the caption gives. Steps are "
        "adaptive instead of Euler's with 0.1. Colours show shares of close pairs, which is "
        "not a number of clusters: closeness is not transitive.",
        compute=phase_diagrams.compute_phases,
        draw=phase_diagrams.draw_phases,
        numbers=phase_diagrams.phase_numbers,
        settings={
            "n": 32,
            "dimensions": [2, 8, 128],
            "least_beta": 0.1,
            "largest_beta": 9.0,
            "betas": 90,
            "end": 30.0,
            "saves": 121,
            "runs": 2048,
            "cosine": 0.999,
            "published_n": 128,
            "seed": 0,
            "store": "",
        },
        quick={"betas": 10, "runs": 8, "saves": 61},
        seconds=(540.0, 12.0),
    ),
    Figure(
        id="inner-products",
        source=f"{PAPER}, histograms of inner products",
        title="Inner products over time",
        shows="Histograms of the inner products between distinct tokens at several times. Marks show the inner product "
        "of tokens that start orthogonal.",
        deviates="The published histograms are of a trained ALBERT, layer by layer; here they are of the tokens of "
        "the flow itself, for which the curve of orthogonal tokens is known.",
        compute=compute_cosines,
        draw=draw_cosines,
        numbers=cosine_numbers,
        settings={
            "n": 128,
            "d": 512,
            "beta": 1.0,
            "times": [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0],
            "bins": 160,
            "seed": 0,
        },
        quick={"n": 64},
        seconds=(9.0, 5.0),
        verdicts=cosine_verdicts,
    ),
)
