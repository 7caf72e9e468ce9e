"""Statements about the law of infinitely many tokens: growth of modes, noise, Gaussian laws, and the limit itself."""

import numpy as np
from scipy.stats import norm

from attnflow.analyse import circle
from attnflow.integrate.simulate import simulate
from attnflow.mean_field.branches import branch
from attnflow.mean_field.continuity_equation import evolve
from attnflow.mean_field.densities import uniform, von_mises
from attnflow.mean_field.distances import distance
from attnflow.mean_field.gaussian_laws import gaussian
from attnflow.mean_field.thresholds import critical_beta
from attnflow.model import initial
from attnflow.model.attention import Softmax, Unnormalised
from attnflow.model.flows import EuclideanAttention, SphereAttention
from attnflow.model.heads import Head
from attnflow.theorems.statement import Computation
from attnflow.theorems.verdict import Measurement, above, at_most

LARGEST_LINEAR_AMPLITUDE = 1e-4  # its square is the size of the terms that linearisation leaves out


def _growth(beta: float, mode: int, *, softmax: bool, amplitude: float = 1e-6):
    """Hypotheses and measurement: the equation in time against k^2 I_k(beta) / beta, over I_0(beta) for softmax."""

    def measure() -> Measurement:
        expected = circle.growth_rates(beta, mode, softmax=softmax)[mode - 1]
        flow = SphereAttention(Head.identity(2), Softmax(beta) if softmax else Unnormalised(beta))
        end = 2 / expected
        law = evolve(flow, uniform(mode, amplitude), [0.0, end], rtol=1e-11, progress=False)
        sizes = np.hypot(law.cosine.values, law.sine.values)[:, mode]
        return Measurement(
            quantity=f"relative error of the growth rate of mode {mode}, expected {expected:.4g}",
            value=abs(float(np.log(sizes[1] / sizes[0])) / end / expected - 1),
            tolerance=100 * amplitude**2 + 1e-15 / amplitude,
            why="squares of the amplitude after it has grown by e^2, and rounding relative to it",
        )

    return (
        above("beta > 0", beta, 0.0),
        at_most("a small perturbation of the uniform law", amplitude, LARGEST_LINEAR_AMPLITUDE, "of amplitude"),
    ), measure


def _turning_back(beta: float):
    """Hypotheses and measurement: above beta_c the branch of ordered laws begins towards smaller kappa."""

    def measure() -> Measurement:
        states = branch(Unnormalised(beta), modes=64, states=40)
        return Measurement(
            quantity="least kappa of the ordered laws over that at which the uniform law loses stability",
            value=float(states.kappa.min() / states.kappa[0]),
            tolerance=1 - 1e-9,
            why="a branch that turns back has states below the bifurcation; Newton's method has the error 1e-12",
        )

    return (above("beta > beta_c", beta, critical_beta(2)),), measure


def _gaussian(law: str, n: int = 500, value: float = -1.0):
    """Hypotheses and measurement: the variance of tokens on the line against s_0 / (1 - 2 v s_0 t)."""

    def measure() -> Measurement:
        shares = (np.arange(n) + 0.5) / n
        tokens = norm.ppf(shares) if law == "gaussian" else np.sqrt(12) * (shares - 0.5)
        flow, end = EuclideanAttention(Head(value=np.array([[value]]))), 1.0
        expected = float(gaussian(flow, [0.0], [[1.0]], [0.0, end]).covariance[-1, 0, 0])
        run = simulate(flow, tokens[:, None], np.array([0.0, end]), progress=False)
        return Measurement(
            quantity=f"difference between the variance of {n} tokens and {expected:.4g}",
            value=abs(float(run.final_tokens.values.var()) - expected),
            tolerance=abs(float(norm.ppf(shares).var()) - 1),
            why="the variance of quantiles of the first law differs from 1 by this much",
        )

    return (
        at_most("V < 0, for which the variance stays finite", value, 0.0, "of V"),
        at_most("at least 100 tokens", 100, n, "tokens"),
    ), measure


def _limit(sizes: tuple[int, ...] = (100, 400, 1600), runs: int = 12, shift: float = 0.0):
    """Hypotheses and measurement: the exponent of n in the distance between tokens and the law."""

    def measure() -> Measurement:
        flow, end = SphereAttention(Head.identity(2), Softmax(2.0)), 1.0
        law = evolve(flow, von_mises(1.0, angle=shift), [0.0, end], progress=False).isel(time=-1)
        rng = np.random.default_rng(0)
        means = []
        for n in sizes:
            tokens = initial.on_circle(rng.vonmises(0.0, 1.0, (runs, n)))
            last = simulate(flow, tokens, np.array([0.0, end]), progress=False).final_tokens.values
            means.append(np.mean([distance(one, law) for one in last]))
        exponent = float(np.polyfit(np.log(sizes), np.log(means), 1)[0])
        return Measurement(
            quantity=f"difference of the exponent of n, {exponent:.3f}, from -1/2",
            value=abs(exponent + 0.5),
            tolerance=0.15,
            why=f"the distance of one start varies by about half; {runs} starts for each n leave this much",
        )

    return (at_most("at least three numbers of tokens", 3, len(sizes), "numbers"),), measure


STATEMENTS: tuple[Computation, ...] = (
    Computation(
        id="mean-field-growth",
        paper="arXiv:2312.10794 and arXiv:2410.23228",
        says="Around the uniform law on the circle the mean-field equation lets mode k grow at the rate "
        "k^2 I_k(beta)/beta (over I_0(beta) for softmax).",
        evaluate=_growth,
        example={"beta": 4.0, "mode": 3, "softmax": True},
        control={"beta": 4.0, "mode": 3, "softmax": True, "amplitude": 0.3},
    ),
    Computation(
        id="noisy-transition",
        paper="arXiv:2606.05140, from its abstract",
        says="With noise, ordered laws exist below the kappa at which the uniform law loses stability if beta > "
        "beta_c, where I_{d/2+1}(beta_c) / I_{d/2}(beta_c) = 1/d: the transition is discontinuous. Checked for d = 2.",
        evaluate=_turning_back,
        example={"beta": 4.0},
        control={"beta": 2.0},
    ),
    Computation(
        id="gaussian-laws",
        paper="arXiv:2501.18322",
        says="Gaussian laws stay Gaussian under softmax attention in R^d, with m' = V (m + beta S B^T m) and "
        "S' = beta (V S B^T S + S B S V^T).",
        evaluate=_gaussian,
        example={"law": "gaussian"},
        control={"law": "uniform"},
    ),
    Computation(
        id="mean-field-limit",
        paper="arXiv:2305.05465 and arXiv:2312.10794",
        says="The empirical measure of n random tokens tends to the solution of the mean-field equation at the rate "
        "n^-1/2 in the Wasserstein distance, on bounded times.",
        evaluate=_limit,
        example={},
        control={"shift": 0.5},
    ),
)
