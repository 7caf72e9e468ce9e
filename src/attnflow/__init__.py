"""Self-attention dynamics: tokens as particles that attract each other and gather into clusters.

>>> import numpy as np, attnflow as af
>>> flow = af.SphereAttention(af.Head.identity(3), af.Softmax(beta=1.0), af.masks.causal)
>>> run = af.simulate(flow, af.initial.sphere(8, 3, rng=0), np.linspace(0, 40, 9))
>>> int(af.clusters.count(run, 0.05)[-1])
1
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnflow import initial as initial
    from attnflow import masks as masks
    from attnflow import models as models
    from attnflow import observables as observables
    from attnflow import show as show
    from attnflow import trained as trained
    from attnflow import values as values
    from attnflow.analyse import attention_matrices as attention_matrices
    from attnflow.analyse import attention_rank as attention_rank
    from attnflow.analyse import circle as circle
    from attnflow.analyse import cluster_tracks as cluster_tracks
    from attnflow.analyse import clusters as clusters
    from attnflow.analyse import collapse as collapse
    from attnflow.analyse import energy as energy
    from attnflow.analyse import frozen_attention as frozen_attention
    from attnflow.analyse import hyperplanes as hyperplanes
    from attnflow.analyse import leaders as leaders
    from attnflow.analyse import order as order
    from attnflow.analyse import polytope as polytope
    from attnflow.analyse import rates as rates
    from attnflow.analyse import renyi as renyi
    from attnflow.analyse import spectra as spectra
    from attnflow.attention import Hardmax as Hardmax
    from attnflow.attention import Sinkhorn as Sinkhorn
    from attnflow.attention import Softmax as Softmax
    from attnflow.attention import Unnormalised as Unnormalised
    from attnflow.coalescence import coalesce as coalesce
    from attnflow.dynamics import EuclideanAttention as EuclideanAttention
    from attnflow.dynamics import RescaledAttention as RescaledAttention
    from attnflow.dynamics import SphereAttention as SphereAttention
    from attnflow.evaluate import attention_matrix as attention_matrix
    from attnflow.evaluate import attention_over_time as attention_over_time
    from attnflow.evaluate import velocity as velocity
    from attnflow.heads import Head as Head
    from attnflow.integrate import simulate as simulate
    from attnflow.mlp import MLP as MLP
    from attnflow.noise import Noise as Noise
    from attnflow.normalisation import NGPT as NGPT
    from attnflow.normalisation import Mix as Mix
    from attnflow.normalisation import Peri as Peri
    from attnflow.normalisation import Post as Post
    from attnflow.normalisation import Pre as Pre
    from attnflow.normalisation import Sqrt as Sqrt
    from attnflow.repeat import rerun as rerun
    from attnflow.schedules import PiecewiseHead as PiecewiseHead
    from attnflow.schedules import RedrawnHead as RedrawnHead
    from attnflow.schedules import TimeDependentHead as TimeDependentHead
    from attnflow.solvers import RK4 as RK4
    from attnflow.solvers import Adaptive as Adaptive
    from attnflow.solvers import Euler as Euler
    from attnflow.solvers import Heun as Heun
    from attnflow.solvers import Layers as Layers
    from attnflow.solvers import StochasticHeun as StochasticHeun
    from attnflow.stability import linearise as linearise
    from attnflow.stability import lyapunov_exponents as lyapunov_exponents
    from attnflow.stopping import Clustered as Clustered
    from attnflow.stopping import Diverged as Diverged
    from attnflow.stopping import Settled as Settled
    from attnflow.theorems.atlas import atlas as atlas
    from attnflow.theorems.frozen_validity import frozen_validity as frozen_validity
    from attnflow.theorems.predict import predict as predict
    from attnflow.theorems.robustness import robustness as robustness
    from attnflow.theorems.verify import verify as verify
    from attnflow.token_by_token import append as append
    from attnflow.token_by_token import stream as stream
    from attnflow.trajectory import load as load
    from attnflow.trajectory import save as save

# Where each public name lives; a module is loaded when one of its names is first used.
_HOMES = {
    "attnflow": ("initial", "masks", "models", "observables", "show", "trained", "values"),
    "attnflow.analyse": (
        "attention_matrices", "attention_rank", "circle", "cluster_tracks", "clusters", "collapse", "energy",
        "frozen_attention", "hyperplanes", "leaders", "order", "polytope", "rates", "renyi", "spectra",
    ),
    "attnflow.attention": ("Hardmax", "Sinkhorn", "Softmax", "Unnormalised"),
    "attnflow.coalescence": ("coalesce",),
    "attnflow.dynamics": ("EuclideanAttention", "RescaledAttention", "SphereAttention"),
    "attnflow.evaluate": ("attention_matrix", "attention_over_time", "velocity"),
    "attnflow.heads": ("Head",),
    "attnflow.integrate": ("simulate",),
    "attnflow.mlp": ("MLP",),
    "attnflow.noise": ("Noise",),
    "attnflow.normalisation": ("NGPT", "Mix", "Peri", "Post", "Pre", "Sqrt"),
    "attnflow.repeat": ("rerun",),
    "attnflow.schedules": ("PiecewiseHead", "RedrawnHead", "TimeDependentHead"),
    "attnflow.solvers": ("RK4", "Adaptive", "Euler", "Heun", "Layers", "StochasticHeun"),
    "attnflow.stopping": ("Clustered", "Diverged", "Settled"),
    "attnflow.stability": ("linearise", "lyapunov_exponents"),
    "attnflow.theorems.atlas": ("atlas",),
    "attnflow.theorems.frozen_validity": ("frozen_validity",),
    "attnflow.theorems.predict": ("predict",),
    "attnflow.theorems.robustness": ("robustness",),
    "attnflow.theorems.verify": ("verify",),
    "attnflow.token_by_token": ("append", "stream"),
    "attnflow.trajectory": ("load", "save"),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str):
    if name not in _HOME_OF:
        raise AttributeError(f"module 'attnflow' has no attribute {name!r}")
    home = _HOME_OF[name]
    is_module = home in ("attnflow", "attnflow.analyse")
    value = importlib.import_module(f"{home}.{name}") if is_module else getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__():
    return __all__
