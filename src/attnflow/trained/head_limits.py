"""The limit of tokens under one trained head: predicted from its matrices, and shown by simulations."""

import math
from typing import Any

import numpy as np

from attnflow.analyse import low_rank
from attnflow.analyse.spectra import Spectrum, spectrum
from attnflow.integrate.simulate import simulate
from attnflow.model import initial
from attnflow.model.attention import Softmax
from attnflow.model.flows import EuclideanAttention, RescaledAttention
from attnflow.model.heads import Head
from attnflow.solvers.layers import Layers
from attnflow.theorems.prediction.limits import ObservedLimit, Quantity, fulfils
from attnflow.theorems.prediction.observed_limits import observed_limits
from attnflow.theorems.prediction.predict import predict

KINDS = ("real-positive", "real-negative", "complex")
SAVES = 24  # saved times of a simulation after the start
# Limits that the leading eigenvalue suggests where no theorem or conjecture applies; the first one is printed.
SUGGESTED_LIMITS = {"real-positive": ("hyperplanes",), "real-negative": ("diverging", "zero"), "complex": ("rotation",)}


def kind_of(eigenvalue: complex) -> str:
    """The kind of an eigenvalue: one of `KINDS`.

    Examples
    --------
    >>> kind_of(2.0), kind_of(-1.0), kind_of(1.0 + 3.0j)
    ('real-positive', 'real-negative', 'complex')
    """
    eigenvalue = complex(eigenvalue)
    return "complex" if eigenvalue.imag != 0 else "real-positive" if eigenvalue.real > 0 else "real-negative"


def value_factors(head: Head) -> tuple[np.ndarray, np.ndarray]:
    """The factors of V: output and value."""
    if head.output is None:
        return np.eye(head.dimension), np.asarray(head.value)
    return np.asarray(head.output), np.asarray(head.value)


def on_its_range(head: Head) -> Head:
    """The head restricted to the range of V, in an orthonormal basis: k x k matrices with the same motion there."""
    basis, value = low_rank.on_range(*value_factors(head))
    return Head(np.asarray(head.query) @ basis, np.asarray(head.key) @ basis, value)


def limits(head: Head, runs: int, seed: int) -> dict[str, Any]:
    """The predicted limit of a head, and the limits of `runs` simulations with counts (see `head_table`).

    The prediction, where no theorem applies, and the quantity by which a limit is recognised both come from the
    spectrum of V. An agreement thus tests Q and K only where other Q and K, the controls, agree less often.
    """
    flow = RescaledAttention(on_its_range(head), Softmax(1.0))
    prediction = predict(flow)
    kind = kind_of(low_rank.eigenvalues(*value_factors(head))[0])
    expected = SUGGESTED_LIMITS[kind] if prediction.limit == "unknown" else (prediction.limit,)
    by = prediction.results[0].id if prediction.results else "spectrum"
    observed = _simulated(flow, runs, seed) if runs else []
    words = [one.limit for one in observed]
    decided = [any(fulfils(word, one) for word in expected) for one in words if one != "undecided"]
    return {
        "predicted": expected[0],
        "proved": prediction.proved,
        "by": by,
        "simulated": ", ".join(sorted(set(words))),
        "agreement": np.mean(decided) if decided else np.nan,
        "agreeing": sum(decided),
        "undecided": words.count("undecided"),
        "several_hyperplanes": sum(
            one.limit == "hyperplanes" and one.numbers[Quantity.HYPERPLANES] > 1 for one in observed
        ),
    }


def _simulated(flow: RescaledAttention, runs: int, seed: int) -> list[ObservedLimit]:
    """The limit of each run, simulated in discrete layers of a small step: trained heads are often stiff.

    The plain flow x is simulated, which costs less, and rescaled: z = (I + h V)^{-k} x after k layers of step h.
    """
    value = np.asarray(flow.rescaling_matrix)
    step, layers = _layer_step(spectrum(value))
    tokens = initial.gaussian(8, len(value), rng=seed, runs=runs)
    times = step * layers * np.arange(SAVES + 1)
    plain = EuclideanAttention(flow.heads, flow.attention)
    run = simulate(plain, tokens, times, solver=Layers(step), progress=False)
    back = np.linalg.inv(np.linalg.matrix_power(np.eye(len(value)) + step * value, layers))
    frames = np.stack([np.linalg.matrix_power(back, save).T for save in range(run.sizes["time"])])
    # Without the record of the layers: their z stands for that of continuous time, whose turn the spectrum gives.
    rescaled = run.assign(tokens=(run.tokens.dims, run.tokens.values @ frames)).drop_attrs()
    return list(observed_limits(flow, rescaled))


def _layer_step(found: Spectrum) -> tuple[float, int]:
    """Step of a layer and layers from save to save; the run ends when the slowest rate has acted, or z loses digits."""
    lead = found.leading.value
    rate, turning = max(abs(lead.real), 1e-3), max(abs(lead.imag), 1e-3)
    end = 12 / rate if found.is_leading_real else max(3 / rate, math.pi / turning)
    reals, radius = np.real(found.values), np.abs(found.values).max()
    # The components of z = e^{-tV} x differ by factors e^{t spread}; beyond e^{30} rounding reaches the leading one.
    end = min(end, 30 / max(float(np.ptp(reals)), 1e-3), 100.0)
    # A layer is a step of at most 0.4 / radius, unless that needs more than 12 layers from save to save.
    layers = int(np.clip(np.ceil(end * radius / (0.4 * SAVES)), 1, 12))
    return float(end / (SAVES * layers)), layers
