"""Signatures of the functions of all figures, for type checkers and editors; made from the catalogue."""

from typing import Any

from attnflow._common.progress import Progress
from attnflow.figures.public_function import DrawnFigure

def boolean_1d(
    *,
    start: str = ...,
    n: int = ...,
    end: float = ...,
    saves: int = ...,
    seed: int = ...,
    moments: list[float] = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def polytope_2d(
    *,
    start: str = ...,
    saves: int = ...,
    n: int = ...,
    end: float = ...,
    seed: int = ...,
    frames: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def polytope_3d(
    *,
    start: str = ...,
    saves: int = ...,
    n: int = ...,
    end: float = ...,
    seed: int = ...,
    frames: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def hyperplanes_2d(
    *,
    start: str = ...,
    saves: int = ...,
    n: int = ...,
    end: float = ...,
    seed: int = ...,
    frames: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def hyperplanes_3d_decaying(
    *,
    start: str = ...,
    saves: int = ...,
    n: int = ...,
    end: float = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def hyperplanes_3d_growing(
    *,
    start: str = ...,
    saves: int = ...,
    n: int = ...,
    end: float = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def codimension_2(
    *,
    start: str = ...,
    saves: int = ...,
    n: int = ...,
    end: float = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def polytope_times_hyperplane(
    *,
    start: str = ...,
    saves: int = ...,
    n: int = ...,
    end: float = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def leaders_graph(
    *,
    n: int = ...,
    end: float = ...,
    saves: int = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def rank_80(
    *,
    n: int = ...,
    d: int = ...,
    end: float = ...,
    saves: int = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def coordinates_128(
    *,
    n: int = ...,
    d: int = ...,
    end: float = ...,
    step: float = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def minus_identity(
    *,
    n: int = ...,
    d: int = ...,
    start: str = ...,
    end: float = ...,
    saves: int = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def two_time_scales(
    *,
    start: str = ...,
    saves: int = ...,
    n: int = ...,
    d: int = ...,
    end: float = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def boolean_exceptions(
    *,
    beta: float = ...,
    axis: int = ...,
    offsets: list[float] = ...,
    end: float = ...,
    saves: int = ...,
    runs: int = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def slides_boolean(
    *,
    n: int = ...,
    end: float = ...,
    saves: int = ...,
    seed: int = ...,
    moments: list[float] = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def slides_polytope(
    *,
    n: int = ...,
    end: float = ...,
    saves: int = ...,
    seed: int = ...,
    frames: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def multihead_eigenvalues(
    *,
    n: list[int] = ...,
    heads: int = ...,
    start: str = ...,
    end: float = ...,
    saves: int = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def multihead_more_tokens(
    *,
    n: list[int] = ...,
    heads: int = ...,
    start: str = ...,
    end: float = ...,
    saves: int = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def multihead_circle(
    *,
    n: list[int] = ...,
    heads: int = ...,
    end: float = ...,
    saves: int = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def multihead_3d(
    *,
    n: list[int] = ...,
    heads: int = ...,
    start: str = ...,
    end: float = ...,
    saves: int = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def multihead_rate(
    *,
    heads: list[int] = ...,
    runs: int = ...,
    n: int = ...,
    d: int = ...,
    end: float = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def start_laws(
    *,
    laws: list[str] = ...,
    n: list[int] = ...,
    d: list[int] = ...,
    seeds: int = ...,
    end: float = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def master_equation(
    *,
    n: int = ...,
    sizes: list[float] = ...,
    end: float = ...,
    saves: int = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def sphere_clustering(
    *,
    n: int = ...,
    betas: list[float] = ...,
    end: float = ...,
    saves: int = ...,
    frames: int = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def phase_diagrams(
    *,
    n: int = ...,
    dimensions: list[int] = ...,
    least_beta: float = ...,
    largest_beta: float = ...,
    betas: int = ...,
    end: float = ...,
    saves: int = ...,
    runs: list[int] = ...,
    cosine: float = ...,
    published_n: int = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def inner_products(
    *,
    n: int = ...,
    d: int = ...,
    beta: float = ...,
    times: list[float] = ...,
    bins: int = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def causal_limits(
    *,
    spectra: list[list[float]] = ...,
    n: int = ...,
    beta: float = ...,
    end: float = ...,
    saves: int = ...,
    starts: int = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def value_spectrum(
    *,
    width: int = ...,
    head_width: int = ...,
    heads: int = ...,
    deviation: float = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def renyi_centres(
    *,
    n: int = ...,
    beta: float = ...,
    c: float = ...,
    end: float = ...,
    saves: int = ...,
    moments: list[float] = ...,
    frames: int = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def captured_fraction(
    *,
    n: int = ...,
    beta: float = ...,
    c: float = ...,
    radius: float = ...,
    end: float = ...,
    saves: int = ...,
    runs: int = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def force(
    *,
    beta: float = ...,
    points: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def cluster_number_sphere(
    *,
    n: int = ...,
    dimensions: list[int] = ...,
    least_beta: float = ...,
    largest_beta: float = ...,
    betas: int = ...,
    c: float = ...,
    radius: float = ...,
    end: float = ...,
    runs: int = ...,
    draws: int = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def five_tokens(
    *,
    tokens: list[list[float]] = ...,
    beta: float = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def energy_staircase(
    *,
    betas: list[float] = ...,
    units: list[float] = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def merge_tree(
    *,
    n: int = ...,
    beta: float = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def plateau_lengths(
    *,
    n: int = ...,
    beta: float = ...,
    starts: int = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def normalisation_rates(
    *,
    schemes: list[str] = ...,
    n: int = ...,
    beta: float = ...,
    end: float = ...,
    saves: int = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def hardmax_leaders(
    *,
    starts: Any = ...,
    alpha: float = ...,
    layers: int = ...,
    n: int = ...,
    seeds: Any = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def long_context(
    *,
    rho: float = ...,
    exponents: list[float] = ...,
    largest: float = ...,
    points: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def lost_in_the_middle(
    *,
    slope: float = ...,
    beta: float = ...,
    width: float = ...,
    factors: list[float] = ...,
    n: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def noise_phases(
    *,
    n: int = ...,
    largest_beta: float = ...,
    betas: int = ...,
    least_kappa: float = ...,
    largest_kappa: float = ...,
    kappas: int = ...,
    end: float = ...,
    step: float = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def cluster_number(
    *,
    n: int = ...,
    betas: list[float] = ...,
    runs: int = ...,
    end: float = ...,
    ripple: float = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def trained_spectra(
    *,
    model: str = ...,
    runs: int = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def trained_flow(
    *,
    model: str = ...,
    prompt: str = ...,
    n: int = ...,
    end: float = ...,
    saves: int = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def trained_heads(
    *,
    model: str = ...,
    layer: int = ...,
    counts: list[int] = ...,
    prompt: str = ...,
    end: float = ...,
    saves: int = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
def trained_prompt(
    *,
    model: str = ...,
    prompt: str = ...,
    seed: int = ...,
    quick: bool = ...,
    progress: Progress = ...,
) -> DrawnFigure: ...
