"""The table of named scenarios."""

from dataclasses import replace
from functools import partial

from attnflow.experiments.settings import Scenario, Settings

_RESCALED = partial(Settings, space="rescaled", start="box:-5,5")
_LAYERNORM = partial(Settings, n=32, d=3)
# Theorems on schemes with lengths ask for n <= e^beta; from a hemisphere tokens pass no metastable clusters.
_WITH_LENGTHS = partial(Settings, n=16, d=3, beta=2.8, start="hemisphere", end=1e5, spacing="log")

_STATEMENTS = {
    "boolean": "boolean-limit", "polytope": "polytope", "polytope-3d": "polytope", "hyperplanes": "hyperplanes",
    "hyperplanes-3d": "hyperplanes", "codim2": "codimension-k", "mixed": "polytope-times-hyperplane",
    "minus-identity": "minus-identity", "sphere": "single-cluster", "sphere-usa": "single-cluster",
    "kuramoto": "single-cluster-circle", "causal": "identity-value", "renyi": "quasi-stationary",
    "hardmax": "hardmax-limits", "layernorm-post": "last-rate", "layernorm-pre": "last-rate",
    "layernorm-mix": "last-rate", "layernorm-peri": "last-rate", "layernorm-ngpt": "last-rate",
    "layernorm-sqrt": "last-rate",
}  # fmt: skip

CATALOGUE = {
    scenario.name: replace(scenario, statement=_STATEMENTS.get(scenario.name, ""))
    for scenario in (
        Scenario("boolean", "V = I on the line. Theory: all rows of attention but one have a Boolean limit.",
                 "2305.05465", _RESCALED(start="box:-1,1", n=40, d=1, end=20.0)),
        Scenario("polytope", "V = I in the plane. Theory: rescaled tokens have limits on a polygon.",
                 "2305.05465", _RESCALED(n=20, d=2, end=20.0)),
        Scenario("polytope-3d", "V = I in space. Theory: rescaled tokens have limits on a polyhedron.",
                 "2305.05465", _RESCALED(n=40, d=3, end=20.0)),
        Scenario("hyperplanes", "A simple positive leading eigenvalue, d = 2. Theory: at most three parallel lines.",
                 "2305.05465", _RESCALED(n=40, d=2, value="published-2d", end=15.0)),
        Scenario("hyperplanes-3d", "A simple positive leading eigenvalue, d = 3. Theory: at most three planes.",
                 "2305.05465", _RESCALED(n=40, d=3, value="published-3d-growing", end=15.0)),
        Scenario("codim2", "Two positive eigenvalues in space. Conjecture: parallel lines, at most three.",
                 "2305.05465", _RESCALED(n=40, d=3, value="published-codim2", end=20.0)),
        Scenario("mixed", "V = diag(1, 1, -1/2). Theory: a polygon in the first two coordinates, the third unbounded.",
                 "2305.05465", _RESCALED(n=40, d=3, value="diagonal:1,1,-0.5", end=20.0)),
        Scenario("minus-identity", "V = -I. Theory: tokens tend to zero like one over the root of time.",
                 "2305.05465", Settings(space="euclidean", n=40, d=2, value="minus-identity", start="box:-5,5",
                                        end=1000.0, spacing="log")),
        Scenario("multihead", "Four heads with random queries and keys on the sphere.",
                 "2312.10794", Settings(n=40, d=3, heads=4, query_key="gaussian", end=3.0)),
        Scenario("sphere", "Softmax attention on the sphere. Theory: one cluster in the limit.",
                 "2312.10794", Settings(n=64, d=3, end=15.0)),
        Scenario("sphere-usa", "Unnormalised attention on the sphere, a gradient flow.",
                 "2312.10794", Settings(n=64, d=3, attention="unnormalised", end=15.0)),
        Scenario("kuramoto", "beta = 0 on the circle: Kuramoto oscillators with identical frequencies.",
                 "2312.10794", Settings(n=64, d=2, beta=0.0, attention="unnormalised", start="circle", end=30.0)),
        Scenario("causal", "Causal attention with V = I. Theory: the limit of all tokens is the first one.",
                 "2411.04990", Settings(n=32, d=3, mask="causal", end=300.0, spacing="log")),
        Scenario("renyi", "Causal attention at beta = 64 on the circle, with Rényi centres.",
                 "2411.04990", Settings(n=200, d=2, beta=64.0, mask="causal", start="circle", end=150.0,
                                        spacing="log")),
        Scenario("staircase", "Five tokens at beta = 2000: the energy at every merge.",
                 "2410.06833", Settings(n=5, d=2, beta=2000.0, attention="unnormalised:1",
                                        start="angles:0,0.0425,0.17,0.34,0.595"), coalesces=True),
        Scenario("metastable", "200 tokens on the circle at beta = 100, followed from merge to merge.",
                 "2410.06833", Settings(n=200, d=2, beta=100.0, start="circle"), coalesces=True),
        Scenario("conjecture1", "Two causal tokens: does the second end at the leading eigenvector?",
                 "2411.04990", Settings(n=2, d=2, beta=4.0, mask="causal", start="circle", value="diagonal:2,1",
                                        query_key="diagonal:-1,1", runs=400, end=60.0), study="conjecture1"),
        Scenario("hardmax", "Only the best match counts. Theory: limits at leaders, at the rate e^-t.",
                 "2407.01602", _RESCALED(n=20, d=2, attention="hardmax", end=20.0)),
        Scenario("noisy", "Attention against noise on the circle. Theory: order above kappa = 1.77 at beta = 1.",
                 "2312.10794", Settings(n=200, d=2, attention="unnormalised", start="circle", kappa=8.0, end=20.0)),
        Scenario("layernorm-post", "Post-LN. Theory: tokens meet exponentially fast.",
                 "2510.22026", _LAYERNORM(end=20.0)),
        Scenario("layernorm-pre", "Pre-LN, with lengths. Theory: tokens meet like one over the square of time.",
                 "2510.22026", _WITH_LENGTHS(normalisation="pre")),
        Scenario("layernorm-mix", "Mix-LN: Post-LN until t = 3, then Pre-LN. Theory: the final rate is that of Pre-LN.",
                 "2510.22026", _WITH_LENGTHS(normalisation="mix:3")),
        Scenario("layernorm-peri", "Peri-LN: the output of attention is normalised, too. Theory: the rate of Pre-LN.",
                 "2510.22026", _WITH_LENGTHS(normalisation="peri")),
        Scenario("layernorm-ngpt", "nGPT: steps of fixed size alpha on the sphere.",
                 "2510.22026", _LAYERNORM(normalisation="ngpt:0.2", end=75.0)),
        Scenario("layernorm-sqrt", "LayerNorm scaling: later layers count less, by the root of depth.",
                 "2510.22026", _LAYERNORM(normalisation="sqrt", end=75.0)),
        Scenario("sinkhorn", "Doubly stochastic attention on the sphere.",
                 "2110.11773", Settings(n=64, d=3, attention="sinkhorn:9", end=15.0)),
        Scenario("mlp", "A ReLU layer after attention.",
                 "2305.05465", _RESCALED(n=40, d=2, mlp="relu")),
        Scenario("layers", "Discrete layers on the sphere: step 0.1, then normalisation.",
                 "2312.10794", Settings(n=64, d=3, solver="layers:0.1", end=15.0, saves=151)),
        Scenario("redrawn", "Random weights, drawn anew every unit of time.",
                 "2512.01868", Settings(n=40, d=3, query_key="gaussian", value="gaussian", redraw=1.0, end=20.0,
                                        saves=401)),
    )
}  # fmt: skip
"""Every scenario by its name."""
