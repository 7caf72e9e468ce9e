"""Thresholds of noisy unnormalised attention on the sphere S^{d-1} with Q = K = V = I."""

from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln, ive

from attnflow._common.checks import require_count, require_positive_number


def critical_kappa(beta: float, d: int = 2) -> float:
    """kappa_1 = beta^{d/2} / (2^{d/2-1} Gamma(d/2) I_{d/2}(beta)), above which the uniform law is unstable.

    The noise is sqrt(2/kappa) dW. For d = 2 it is beta / I_1(beta); it tends to d as beta tends to 0.

    Examples
    --------
    >>> import attnflow as af
    >>> round(af.mean_field.critical_kappa(1.0), 4), round(af.mean_field.critical_kappa(1e-6, d=5), 4)
    (1.7694, 5.0)
    """
    require_positive_number(beta, "beta")
    require_count(d, "d", least=2)
    half = d / 2
    log = half * np.log(beta) - (half - 1) * np.log(2) - gammaln(half) - np.log(ive(half, beta)) - beta
    return float(np.exp(log))


def critical_beta(d: int = 2) -> float:
    """beta_c with I_{d/2+1}(beta_c) / I_{d/2}(beta_c) = 1/d: the transition to order is discontinuous above it.

    Up to beta_c the uniform law is the only minimiser of the free energy until kappa reaches `critical_kappa`; above
    beta_c ordered states exist already below that kappa (arXiv:2606.05140).

    Examples
    --------
    >>> import attnflow as af
    >>> [round(af.mean_field.critical_beta(d), 4) for d in (2, 3, 4)]
    [2.4469, 1.8162, 1.5753]
    """
    require_count(d, "d", least=2)
    half = d / 2
    # The ratio of Bessel functions grows from 0 to 1, about like beta / (d + 2).
    root: Any = brentq(lambda beta: ive(half + 1, beta) / ive(half, beta) - 1 / d, 1e-6, 10.0, xtol=1e-13)
    return float(root)
