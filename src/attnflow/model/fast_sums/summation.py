"""The methods of summation that a flow can name: `summation.Fourier()` and others, with their limits."""

import abc
from typing import Any

import equinox as eqx
import numpy as np

from attnflow._common.checks import InputError, require_positive_number
from attnflow._common.extras import missing, needs
from attnflow._common.module import Module
from attnflow.model.attention import Sinkhorn, Softmax, Unnormalised
from attnflow.model.fast_sums import fourier, gauss, harmonics, heavy_tokens, kernel_sums, neighbours
from attnflow.model.fast_sums.applicability import (
    first_reason,
    reason_of_full_mask,
    reason_of_mask,
    reason_of_modes,
    reason_of_rule,
    reason_of_size,
    reason_of_sphere,
)
from attnflow.model.fast_sums.problem import SumProblem
from attnflow.model.native import host_calls

__all__ = ["Automatic", "Dense", "Fourier", "Gauss", "Harmonics", "HeavyTokens", "Neighbours"]

USUAL_TOLERANCE = 1e-10  # a hundredth of the usual rtol of a solver
MOST_MODES = 2**22  # of a Fourier series: 64 MB of coefficients; rounding of the phases exceeds 1e-9 beyond
MOST_DEGREES = 10_000  # of spherical harmonics: 1.6 GB of coefficients
ANY_RULE = (Softmax, Unnormalised, Sinkhorn)


class AbstractSummation(Module):
    """A way to sum over tokens."""

    @classmethod
    @abc.abstractmethod
    def reason_against(cls, flow: Any) -> str | None:
        """What of a flow the method does not serve, or None if it serves the flow."""


class Automatic(AbstractSummation):
    """The method with the least estimated time among those that apply; the sum over all pairs if none is faster.

    `simulate` and `velocity` choose for the first tokens of a run; `computed_by` in the result names the choice.
    `tolerance` is that of the method; None: a hundredth of the solver's `rtol`, and 1e-10 where there is none.

    Examples
    --------
    >>> import attnflow as af
    >>> af.SphereAttention(af.Head.identity(2), summation="auto").summation
    Automatic()
    """

    tolerance: float | None = eqx.field(default=None, static=True)

    def __check_init__(self):
        if self.tolerance is not None:
            require_positive_number(self.tolerance, "tolerance", "Leave it out.")

    @classmethod
    def reason_against(cls, flow: Any) -> None:
        """None: it serves every flow."""
        del flow


class Dense(AbstractSummation):
    """The sum over all pairs: n^2 operations, exact up to rounding.

    Examples
    --------
    >>> import numpy as np, attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2), summation=af.summation.Dense())
    >>> af.velocity(flow, np.eye(2)).round(3)
    array([[0.   , 0.269],
           [0.269, 0.   ]])
    """

    @classmethod
    def reason_against(cls, flow: Any) -> None:
        """None: it serves every flow."""
        del flow


class AbstractFastSum(AbstractSummation):
    """A method whose attention outputs are off by at most `tolerance` max |v| W_i, W_i being the weight of row i."""

    tolerance: float = eqx.field(default=USUAL_TOLERANCE, static=True)

    def __check_init__(self):
        require_positive_number(self.tolerance, "tolerance", f"Use {USUAL_TOLERANCE:g}.")
        if self.tolerance < self.least_tolerance():
            raise InputError(
                f"`tolerance` of `{type(self).__name__}` must be at least {self.least_tolerance():g}, which is what it "
                f"reaches in float64, but it is {self.tolerance:g}. Use `summation.Dense()` for less."
            )

    @classmethod
    @abc.abstractmethod
    def least_tolerance(cls) -> float:
        """The least tolerance that the method reaches for tokens that are not alone."""

    @classmethod
    def modules(cls) -> tuple[str, ...]:
        """The optional modules that the method needs."""
        return ()

    @abc.abstractmethod
    def outputs(self, problem: SumProblem) -> np.ndarray:
        """The attention output of every token."""


class Fourier(AbstractFastSum):
    """The circle: Fourier series of e^{beta cos}, by non-uniform FFT (finufft).

    Serves softmax, unnormalised attention and Sinkhorn with constant Q and K that map the circle to a circle, any V,
    masses, and the masks full, others, causal, ALiBi and their intersections. Time grows like n + sqrt(beta), under
    a causal mask like n log n. See the guide "Many tokens" for the error bound.

    Examples
    --------
    >>> import attnflow as af
    >>> fast = af.SphereAttention(af.Head.identity(2), af.Softmax(100.0), summation=af.summation.Fourier())
    >>> dense = af.SphereAttention(af.Head.identity(2), af.Softmax(100.0), summation=af.summation.Dense())
    >>> tokens = af.initial.sphere(1000, 2, rng=0)
    >>> bool(abs(af.velocity(fast, tokens) - af.velocity(dense, tokens)).max() < 1e-10)
    True
    """

    @classmethod
    def least_tolerance(cls) -> float:
        """1e-12."""
        return 1e-12

    @classmethod
    def modules(cls) -> tuple[str, ...]:
        """finufft."""
        return ("finufft",)

    @classmethod
    def reason_against(cls, flow: Any) -> str | None:
        """The first reason of space, heads, rule and mask."""
        return first_reason(
            flow,
            reason_of_sphere(2),
            reason_of_rule(ANY_RULE),
            reason_of_mask,
            reason_of_modes(MOST_MODES),
        )

    def outputs(self, problem: SumProblem) -> np.ndarray:
        """The outputs, by `fourier.CircleKernel`."""
        return kernel_sums.outputs(problem, fourier.CircleKernel, self.tolerance)


class Harmonics(AbstractFastSum):
    """The sphere S^2: spherical harmonics of e^{beta <x, y>} at the tokens (ducc0).

    Serves what `Fourier` serves, for d = 3. Time grows like n + beta^{3/2}.

    Examples
    --------
    >>> import attnflow as af
    >>> fast = af.SphereAttention(af.Head.identity(3), af.Softmax(9.0), summation=af.summation.Harmonics())
    >>> dense = af.SphereAttention(af.Head.identity(3), af.Softmax(9.0), summation=af.summation.Dense())
    >>> tokens = af.initial.sphere(500, 3, rng=0)
    >>> bool(abs(af.velocity(fast, tokens) - af.velocity(dense, tokens)).max() < 1e-10)
    True
    """

    @classmethod
    def least_tolerance(cls) -> float:
        """1e-11."""
        return 1e-11

    @classmethod
    def modules(cls) -> tuple[str, ...]:
        """ducc0."""
        return ("ducc0",)

    @classmethod
    def reason_against(cls, flow: Any) -> str | None:
        """The first reason of space, heads, rule and mask."""
        return first_reason(
            flow,
            reason_of_sphere(3),
            reason_of_rule(ANY_RULE),
            reason_of_mask,
            reason_of_modes(MOST_DEGREES),
        )

    def outputs(self, problem: SumProblem) -> np.ndarray:
        """The outputs, by `harmonics.SphereKernel`."""
        return kernel_sums.outputs(problem, harmonics.SphereKernel, self.tolerance)


class Gauss(AbstractFastSum):
    """R^1, R^2 and R^3, and any Q, K on the circle and S^2: a Gauss transform by non-uniform FFT (finufft).

    It is fast while beta |Q x| |K y| stays below about 20 around the mean token; rows beyond are summed over all
    tokens, exactly and slowly. `RescaledAttention` leaves that range after a short time.

    Examples
    --------
    >>> import attnflow as af
    >>> fast = af.EuclideanAttention(af.Head.identity(1), summation=af.summation.Gauss())
    >>> dense = af.EuclideanAttention(af.Head.identity(1), summation=af.summation.Dense())
    >>> tokens = af.initial.box(500, 1, rng=0)
    >>> bool(abs(af.velocity(fast, tokens) - af.velocity(dense, tokens)).max() < 1e-9)
    True
    """

    @classmethod
    def least_tolerance(cls) -> float:
        """1e-12."""
        return 1e-12

    @classmethod
    def modules(cls) -> tuple[str, ...]:
        """finufft."""
        return ("finufft",)

    @classmethod
    def reason_against(cls, flow: Any) -> str | None:
        """The first reason of dimension, heads, rule and mask."""
        return first_reason(flow, reason_of_size, reason_of_rule(ANY_RULE), reason_of_mask)

    def outputs(self, problem: SumProblem) -> np.ndarray:
        """The outputs, by `gauss.GaussKernel`."""
        return kernel_sums.outputs(problem, gauss.GaussKernel, self.tolerance)


class HeavyTokens(AbstractFastSum):
    """Any dimension: tokens within a small diameter are summed as one of their mass.

    Serves softmax and unnormalised attention under a full mask, with constant heads. The number of groups is found at
    every evaluation; time grows like n times that number, so that a run becomes faster as tokens gather.

    Examples
    --------
    >>> import numpy as np, attnflow as af
    >>> flow = af.EuclideanAttention(af.Head.identity(2), summation=af.summation.HeavyTokens(tolerance=1e-6))
    >>> af.velocity(flow, np.array([[1.0, 0.0], [1.0, 1e-5], [0.0, 1.0]])).round(4)
    array([[0.8446, 0.1554],
           [0.8446, 0.1554],
           [0.4239, 0.5761]])
    """

    @classmethod
    def least_tolerance(cls) -> float:
        """1e-15: at a diameter of zero the sum is exact."""
        return 1e-15

    @classmethod
    def reason_against(cls, flow: Any) -> str | None:
        """The first reason of heads, rule and mask."""
        return first_reason(flow, reason_of_rule((Softmax, Unnormalised)), reason_of_full_mask)

    def outputs(self, problem: SumProblem) -> np.ndarray:
        """The outputs, by `heavy_tokens`."""
        return heavy_tokens.outputs(problem, self.tolerance)


class Neighbours(AbstractFastSum):
    """Any dimension, large beta: only the tokens whose weights count, found in a k-d tree.

    Serves softmax and unnormalised attention under a full mask, with constant heads. Time grows like n times the mean
    number of tokens that count, about 300 times as long for each as a pair of the dense sum.

    Examples
    --------
    >>> import attnflow as af
    >>> head, rule = af.Head.identity(8), af.Softmax(1e4)
    >>> tokens = af.initial.sphere(200, 8, rng=0)
    >>> fast = af.SphereAttention(head, rule, summation=af.summation.Neighbours())
    >>> dense = af.SphereAttention(head, rule, summation=af.summation.Dense())
    >>> bool(abs(af.velocity(fast, tokens) - af.velocity(dense, tokens)).max() < 1e-10)
    True
    """

    @classmethod
    def least_tolerance(cls) -> float:
        """1e-15."""
        return 1e-15

    @classmethod
    def reason_against(cls, flow: Any) -> str | None:
        """The first reason of heads, rule and mask."""
        return first_reason(flow, reason_of_rule((Softmax, Unnormalised)), reason_of_full_mask)

    def outputs(self, problem: SumProblem) -> np.ndarray:
        """The outputs, by `neighbours`."""
        return neighbours.outputs(problem, self.tolerance)


FAST = (Fourier, Harmonics, Gauss, HeavyTokens, Neighbours)


def as_summation(given: Any) -> Any:
    """A method of summation; "auto" is `Automatic()`, None stays None and means the same."""
    return Automatic() if isinstance(given, str) and given == "auto" else given


def require_summation(flow: Any) -> None:
    """Raise InputError unless the summation of a flow is a method that serves the flow."""
    method = flow.summation
    if method is not None and not isinstance(method, AbstractSummation):
        raise InputError(
            '`summation` must be "auto" or one of those in af.summation, such as `summation.Fourier()`, '
            f"but it is {method!r}."
        )
    if not isinstance(method, AbstractFastSum):
        return
    if reason := method.reason_against(flow):
        serving = [f"{kind.__name__}()" for kind in FAST if kind.reason_against(flow) is None]
        names = ", ".join([*serving, "Dense()"])
        raise InputError(f"`summation` {type(method).__name__} does not apply: {reason}. These do: {names}.")


def require_available(method: AbstractFastSum) -> None:
    """Raise InputError unless the libraries of a method are there."""
    name = type(method).__name__
    if lacking := [module for module in missing("fast") if module in method.modules()]:
        raise InputError(needs(f"`summation.{name}`", *lacking, instead="Use `summation.Dense()`"))
    if reason := host_calls.reason_unavailable():
        raise InputError(f"`summation.{name}` needs the native library: {reason}. Use `summation.Dense()`.")
