"""Every hypothesis of every rule of `predict` and statement of `verify` acts: there is a flow or a start that breaks it
and no other. Which changes of an example a theorem allows is written down in `applicable_changes.json`, so that a
hypothesis that is dropped is noticed, too. After a deliberate change of hypotheses, look at the difference and write
the table again: python -m tests.theorems.test_hypotheses
"""

import functools
import inspect
import json
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.optimize import brentq
from tests.helpers.changed_flows import changes

import attnflow as af
from attnflow.analyse import renyi
from attnflow.theorems.catalogue import catalogue
from attnflow.theorems.prediction.limit_rules import RULES
from attnflow.theorems.statement import Computation, Statement
from attnflow.theorems.statements.causal_centres import EPSILON

TABLE = Path(__file__).parent / "applicable_changes.json"
STATEMENTS = {name: one for name, one in catalogue().items() if isinstance(one, Statement)}
COMPUTATIONS = {name: one for name, one in catalogue().items() if isinstance(one, Computation)}
THEOREMS = {name: one.theorem for name, one in STATEMENTS.items()} | {one.theorem.id: one.theorem for one in RULES}


# Examples of the rules that are no statements


def causal(value, beta=1.0):
    value = np.asarray(value, dtype=float)
    return af.SphereAttention(af.Head.bilinear(np.eye(len(value)), value), af.Softmax(beta), af.masks.causal)


def flat(value, scores=None, **parts):
    value = np.asarray(value, dtype=float)
    return af.RescaledAttention(af.Head.bilinear(np.eye(len(value)) if scores is None else scores, value), **parts)


SPHERE, BOX = af.initial.sphere(6, 3, rng=0), af.initial.box(6, 3, rng=0)
OF_RULES = {
    "zero-value": (flat(np.zeros((3, 3))), BOX),
    "polytope-times-hyperplane-general": (flat(np.diag([1.0, 1.0, 0.5])), BOX),
    "table-1-cloud": (causal(np.diag([-1.0, -1.0, -2.0])), SPHERE),
    "table-1-two-clouds": (causal(np.diag([-1.0, -2.0, -3.0])), SPHERE),
}


@functools.cache
def example(name):
    """A flow and first tokens to which a theorem applies."""
    if name in OF_RULES:
        return OF_RULES[name]
    instance = STATEMENTS[name].example()
    return instance.flow, instance.tokens


@functools.cache
def measured(name):
    """The hypotheses that each change of the example breaks."""
    return {
        change: tuple(one.says for one in THEOREMS[name].hypotheses(flow, tokens) if not one.holds)
        for change, (flow, tokens) in (changes(*example(name)) | SPECIAL.get(name, {})).items()
    }


# Changes that belong to one theorem


def interior_equilibrium(first, second, beta, d):
    """Two tokens at rest under a causal mask: e_1 and a e_1 + sqrt(1 - a^2) e_d.

    a = -e^{beta (a - 1)} lambda_1 / (lambda_1 - lambda_d), where lambda_1 and lambda_d belong to e_1 and e_d.
    """
    a = brentq(lambda a: a + np.exp(beta * (a - 1)) * first / (first - second), -1, 0.9, xtol=1e-15)
    tokens = np.zeros((2, d))
    tokens[0, 0], tokens[1, 0], tokens[1, -1] = 1.0, a, np.sqrt(1 - a**2)
    return tokens


SHEARED = np.array([[0.5, 5.0], [0.0, 0.5]])  # eigenvalues 0.5, but <Vz, z> up to 3 |z|^2
PAIR = af.values.complex_pair(1.0, 2.0)
JORDAN = af.values.jordan_block(1.0, 2)
FOUR = af.initial.sphere(6, 4, rng=0)
THREE_POINTS, HALF_TURN = af.initial.on_circle(np.array([0.0, 0.8, 1.6])), af.initial.on_circle(np.array([0.0, np.pi]))
SQUARE = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [0.5, 0.0]])  # the last has two best matches
PAIR_OF_TOKENS = af.SphereAttention(af.Head.identity(2), af.Softmax(40.0))
HARDMAX = flat(np.eye(2), attention=af.Hardmax())
SPECIAL = {
    "escaping-tokens": {"two coordinates": (flat(np.eye(2), np.ones((2, 2))), 5 * BOX[:, :2])},
    "phase-curve": {
        "more tokens than coordinates": (
            af.SphereAttention(af.Head.identity(256)),
            np.concatenate([np.eye(256), np.full((1, 256), 1 / 16)]),
        )
    },
    "pair-merge-time": {
        "three tokens": (PAIR_OF_TOKENS, THREE_POINTS),
        "equal": (PAIR_OF_TOKENS, np.array([[1.0, 0.0], [1.0, 0.0]])),
        "antipodal": (PAIR_OF_TOKENS, HALF_TURN),
    },
    "conjecture-1": {
        "V not split": (
            causal([[2.0, 3.0], [0.0, 1.0]]),
            SPHERE[:, :2] / np.linalg.norm(SPHERE[:, :2], axis=1)[:, None],
        ),
        "V sheared": (causal(block_diag(1.0, SHEARED)), SPHERE),
        "at rest": (causal(np.diag([1.0, -0.5]), 5.0), interior_equilibrium(1.0, -0.5, 5.0, 2)),
    },
    "conjecture-2": {
        "two turning pairs": (causal(block_diag(PAIR, PAIR)), FOUR),
        "V not split": (causal([[1.0, 0.0, 3.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.5]]), SPHERE),
        "V sheared": (causal(block_diag(np.eye(2), SHEARED)), FOUR),
        "at rest": (causal(np.diag([1.0, 1.0, -0.5]), 5.0), interior_equilibrium(1.0, -0.5, 5.0, 3)),
    },
    "polytope-times-hyperplane-general": {
        "two turning pairs": (flat(block_diag(PAIR, PAIR, 0.5)), af.initial.box(6, 5, rng=0)),
        "a Jordan block and more": (flat(block_diag(JORDAN, 1.0, 0.5)), af.initial.box(6, 4, rng=0)),
    },
    "table-1-cloud": {
        "two turning pairs": (causal(block_diag(PAIR, PAIR) - 2 * np.eye(4)), FOUR),
        "a Jordan block and more": (causal(block_diag(JORDAN, 1.0) - 2 * np.eye(3)), SPHERE),
        "at rest": (causal(np.diag([-1.0, -1.0, -2.0]), 5.0), interior_equilibrium(-1.0, -2.0, 5.0, 3)),
    },
    "table-1-two-clouds": {"at rest": (causal(np.diag([-1.0, -2.0]), 5.0), interior_equilibrium(-1.0, -2.0, 5.0, 2))},
    "polytope-times-hyperplane": {"V turning": (flat(block_diag(PAIR, 0.5)), BOX)},
    "frank-wolfe-flow": {"a tie": (HARDMAX, SQUARE)},
    "frank-wolfe-layers": {"a tie": (HARDMAX, SQUARE)},
}
IMPLIED = {  # hypotheses of a paper that follow from its others wherever the rest of them holds
    "frozen-centres": {"-N g((c - 2 epsilon) beta^-1/2) < g(epsilon beta^-1/2)"},
    "noisy-threshold": {"beta > 0"},
    "long-context-below": {"rho < 1"},
    "long-context-critical": {"rho < 1", "gamma >= 0"},
    "long-context-above": {"rho < 1", "gamma >= 0"},
}


@pytest.mark.parametrize("name", THEOREMS)
def test_every_hypothesis_can_be_broken_alone(name):
    asked = {one.says for one in THEOREMS[name].hypotheses(*example(name))}
    alone = {broken[0] for broken in measured(name).values() if len(broken) == 1}
    assert not [one.says for one in THEOREMS[name].hypotheses(*example(name)) if not one.holds]
    assert asked - alone == IMPLIED.get(name, set())


@pytest.mark.parametrize("name", THEOREMS)
def test_a_theorem_applies_under_the_changes_written_down_and_no_others(name):
    applicable = [change for change, broken in measured(name).items() if not broken]
    assert applicable == json.loads(TABLE.read_text())[name]


def table():
    """The changes of each example to which the theorem still applies."""
    theorems = {name: [change for change, broken in measured(name).items() if not broken] for name in THEOREMS}
    return theorems | {name: applicable_parameters(one) for name, one in COMPUTATIONS.items()}


# Computations: parameters instead of flows

PARAMETERS = {
    "beta": (-1.0, 0.25), "mode": (), "noise": (1.5,), "n": (0, 1, 50, 4), "d": (1, 3), "samples": (10,),
    "shift": (0.5,), "end": (6.0,), "law": ("hemisphere",), "runs": (5,), "deltas": ((0.8, 0.4), (0.4, 0.3)),
    "attempts": (0.5,), "betas": ((1.0, 100.0),), "rho": (-0.1, 1.2, 0.9), "gamma": (-0.5, 0.6, 1.2, 2.0),
    "log10_n": (0.1,), "slope": (-1.0,), "width": (-1.0,), "time": (-1.0,), "mask": ("full",),
    "amplitude": (0.3,), "value": (0.5,), "sizes": ((100, 200),),
}  # fmt: skip


@functools.cache
def broken_by_parameters(name):
    """The hypotheses of a computation that each change of a parameter breaks."""
    computation = COMPUTATIONS[name]
    known = inspect.signature(computation.evaluate).parameters
    cases = [{parameter: value} for parameter in known for value in PARAMETERS.get(parameter, ())]
    cases += [{"rho": -0.1, "gamma": 1 / 1.1}] if "rho" in known else []  # gamma is critical for this rho
    found = {json.dumps(case): _broken(computation, case) for case in cases}
    return {words: broken for words, broken in found.items() if broken is not None}


def applicable_parameters(computation):
    """The changes of its parameters to which a computation applies."""
    return [words for words, broken in broken_by_parameters(computation.id).items() if not broken]


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_every_hypothesis_of_a_computation_can_be_broken_alone(name):
    computation = COMPUTATIONS[name]
    asked = {one.says for one in computation.evaluate(**computation.example)[0]}
    alone = {broken[0] for broken in broken_by_parameters(name).values() if len(broken) == 1}
    assert asked - alone == IMPLIED.get(name, set())


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_a_computation_applies_under_the_changes_written_down_and_no_others(name):
    assert applicable_parameters(COMPUTATIONS[name]) == json.loads(TABLE.read_text())[name]


@pytest.mark.parametrize("name", [name for name in IMPLIED if name in COMPUTATIONS])
def test_implied_hypotheses_of_computations_follow_from_the_others(name):
    """At random parameters, half of them at the critical gamma, no implied hypothesis is broken alone."""
    rng, alone = np.random.default_rng(0), []
    for _ in range(400):
        rho, gamma, beta = rng.uniform(-1, 2), rng.uniform(-3, 5), rng.uniform(-5, 5)
        gamma = 1 / (1 - rho) if rng.random() < 0.5 else gamma
        known = inspect.signature(COMPUTATIONS[name].evaluate).parameters
        noise = rng.choice([None, rng.uniform(0.1, 3)])  # the critical one, or another
        case = {"rho": rho, "gamma": gamma} if "rho" in known else {"beta": beta, "noise": noise}
        broken = _broken(COMPUTATIONS[name], case)
        alone += broken if broken is not None and len(broken) == 1 else []
    assert alone
    assert not IMPLIED[name] & set(alone)


def test_the_implied_hypothesis_of_frozen_centres_follows_from_the_others():
    """At random beta, masses N >= 2 of all tokens and distances c beta^-1/2 <= pi of two frozen tokens."""
    rng = np.random.default_rng(0)
    beta, total = 10 ** rng.uniform(-1, 5, 20_000), 2 * 10 ** rng.uniform(0, 4, 20_000)
    root = np.sqrt(beta)
    c = rng.uniform(0, np.minimum(np.pi * root, 12))
    pull, slope = (lambda x, f=f: f(x / root, beta) for f in (renyi.interaction, renyi.interaction_slope))
    others_hold = (c > 2 + 2 * EPSILON) & (total * pull(c - 1 - 2 * EPSILON) < pull(EPSILON))
    implied = -total * slope(c - 2 * EPSILON) < slope(EPSILON)
    assert 1000 < others_hold.sum() < 19_000
    assert not np.any(others_hold & ~implied)
    assert np.any(~implied)


def _broken(computation, case):
    """The hypotheses that parameters break; None where they are refused as no numbers of the model at all."""
    try:
        return [one.says for one in computation.evaluate(**(computation.example | case))[0] if not one.holds]
    except ValueError:
        return None


if __name__ == "__main__":
    lines = [f"{json.dumps(name)}: {json.dumps(applicable)}" for name, applicable in table().items()]
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
