"""Names that the shell completes. They are written down here, since the catalogues themselves import JAX."""

import glob
from collections.abc import Callable, Iterable

FIGURES = [
    "boolean-1d",
    "polytope-2d",
    "polytope-3d",
    "hyperplanes-2d",
    "hyperplanes-3d-decaying",
    "hyperplanes-3d-growing",
    "codimension-2",
    "polytope-times-hyperplane",
    "leaders-graph",
    "rank-80",
    "coordinates-128",
    "minus-identity",
    "two-time-scales",
    "boolean-exceptions",
    "polytope-counts",
    "slides-boolean",
    "slides-polytope",
    "multihead-eigenvalues",
    "multihead-more-tokens",
    "multihead-circle",
    "multihead-3d",
    "multihead-rate",
    "start-laws",
    "master-equation",
    "sphere-clustering",
    "phase-diagrams",
    "inner-products",
    "causal-limits",
    "value-spectrum",
    "conjecture1-random",
    "renyi-centres",
    "captured-fraction",
    "force",
    "cluster-number-sphere",
    "five-tokens",
    "energy-staircase",
    "merge-tree",
    "plateau-lengths",
    "normalisation-rates",
    "causal-collapse",
    "normalisation-schemes",
    "euler-step",
    "hardmax-leaders",
    "long-context",
    "lost-in-the-middle",
    "noise-phases",
    "cluster-number",
    "hysteresis",
    "mean-field-limit",
    "aggregation",
    "kernel-modes",
    "steer-sphere",
    "steer-labels",
    "steer-sequences",
    "steer-neural-ode",
    "steer-obstructions",
    "trained-spectra",
    "trained-flow",
    "trained-heads",
    "trained-tokens",
    "trained-starts",
    "trained-steps",
    "trained-architectures",
    "trained-collapse",
    "trained-frozen",
    "trained-merging",
    "trained-linearity",
    "trained-prompt",
]
"""The figures of `attnflow reproduce`, in the order of the report."""

STATEMENTS = [
    "growing-distances",
    "shrinking-hull",
    "polytope",
    "rank-bound",
    "minus-identity",
    "boolean-limit",
    "boolean-rate",
    "escaping-tokens",
    "eigen-coordinates",
    "hyperplanes",
    "polytope-times-hyperplane",
    "codimension-k",
    "energy-sa",
    "energy-usa",
    "hemisphere-cone",
    "hemisphere-rate",
    "cone-speed",
    "single-cluster",
    "equiangular-sa",
    "equiangular-usa",
    "phase-curve",
    "single-cluster-circle",
    "fourier-growth",
    "cluster-number",
    "noisy-threshold",
    "wendel",
    "mean-field-growth",
    "noisy-transition",
    "gaussian-laws",
    "mean-field-limit",
    "caps-hold",
    "caps-collapse",
    "pair-merge-time",
    "staircase-levels",
    "plateau-lengths",
    "first-token",
    "first-token-jordan",
    "identity-value",
    "conjecture-1",
    "conjecture-2",
    "sequential-gradient",
    "interaction-peak",
    "interaction-bounds",
    "interaction-peak-bracket",
    "renyi-count",
    "renyi-exponent",
    "renyi-scaling",
    "strong-renyi-count",
    "quasi-stationary",
    "frozen-centres",
    "synchronisation",
    "synchronisation-with-lengths",
    "first-speed",
    "last-rate",
    "length-growth",
    "hardmax-leaders",
    "hardmax-leaders-layers",
    "hardmax-limits",
    "hardmax-limits-layers",
    "frank-wolfe-flow",
    "frank-wolfe-layers",
    "long-context-below",
    "long-context-critical",
    "long-context-above",
    "lost-in-the-middle",
    "recency-lost",
    "layers-single-cluster",
    "layers-shrinking-hull",
    "layers-polytope",
    "layers-shrinking-tokens",
    "layers-falling-energy",
]
"""The statements of `attnflow verify`, in the order in which they are printed."""

LAWS = [
    "meanfield",
    "meanfield-transition",
    "meanfield-zonal",
    "meanfield-sphere",
    "meanfield-line",
    "meanfield-plane",
]
"""The scenarios of the mean field, which take a second to import."""


CONTROLS = ["steer-sphere", "steer-labels", "interpolate-sequences", "neural-ode"]
"""The scenarios of control."""

MODELS = ["minilm", "smollm2", "rxnmapper", "rxnfp", "rxnfp-ft", "rxnfp-ft-10k", "antiberty"]
"""The trained models that come as Python packages."""

MEASURES = [
    "mean-cosine",
    "close-pairs",
    "diameter",
    "order-parameter",
    "largest-norm",
    "energy",
    "clusters",
    "final-clusters",
    "scaled-clusters",
    "vertices",
    "leaders",
    "rank",
    "captured",
    "strongly-captured",
    "unaligned",
    "end-time",
    "step-count",
]
"""The measures of `attnflow sweep`."""

PALETTES = [
    "viridis",
    "plasma",
    "inferno",
    "magma",
    "cividis",
    "twilight",
    "coolwarm",
    "tab10",
    "tab20",
    "Set2",
    "Dark2",
]
"""Some colormaps of matplotlib, of about 180."""


def scenarios(incomplete: str) -> list[str]:
    """Names of scenarios that begin with some letters.

    Examples
    --------
    >>> scenarios("poly")
    ['polytope', 'polytope-3d']
    """
    from attnflow.experiments.catalogue import CATALOGUE

    return _beginning(CATALOGUE, incomplete)


def listed(incomplete: str) -> list[str]:
    """What `attnflow list` takes: the two lists, and names of all scenarios."""
    return [*_beginning(("scenarios", "figures"), incomplete), *every_scenario(incomplete)]


def every_scenario(incomplete: str) -> list[str]:
    """Names of all scenarios, with those of the mean field and of control, that begin with some letters."""
    return [*scenarios(incomplete), *_beginning((*LAWS, *CONTROLS), incomplete)]


def one_of(*words: str) -> Callable[[str], list[str]]:
    """The function that completes one of some words.

    Examples
    --------
    >>> one_of("linear", "log")("lo")
    ['log']
    """
    return lambda incomplete: _beginning(words, incomplete)


def scenarios_and_files(incomplete: str) -> list[str]:
    """Names of all scenarios and paths of files of settings that begin with some letters."""
    return [*every_scenario(incomplete), *sorted(glob.glob(f"{glob.escape(incomplete)}*.toml"))]


def figures(incomplete: str) -> list[str]:
    """Names of figures that begin with some letters."""
    return _beginning(FIGURES, incomplete)


def statements(incomplete: str) -> list[str]:
    """Names of statements that begin with some letters."""
    return _beginning(STATEMENTS, incomplete)


def words_of(setting: str) -> Callable[[str], list[str]]:
    """The function that completes the words of a setting of a scenario, such as "mask"."""

    def complete(incomplete: str) -> list[str]:
        from attnflow.experiments.vocabulary import known_words

        return _beginning(known_words(setting), incomplete)

    return complete


def _beginning(names: Iterable[str], letters: str) -> list[str]:
    return [name for name in names if name.startswith(letters)]
