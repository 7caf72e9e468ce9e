"""Whether a long run reaches a promised limit, measured from the definition of the limit alone."""

from collections.abc import Callable

import numpy as np
from scipy.linalg import expm, sqrtm
from scipy.spatial import ConvexHull, QhullError
from tests.hunt.plain_equations import Equation, solve

HELD, OPEN, BROKEN, NOT_TESTED = "held", "undecided", "broken", "not tested"
CLOSE = 1e-3  # from a limit, over the size of the first tokens
STILL = 1e-5  # moved in the last fifth of the time, over the size of the first tokens: settled
AT_REST = 1e-9  # the largest speed on the sphere of tokens that go nowhere any more


def judged(limit: str, equation: Equation, first: np.ndarray) -> str:
    """`held`, `undecided` or `broken` for the promise that the state `first` ends in `limit`.

    `not tested` for clouds: how close tokens stay to a subspace no theorem says, so that no run breaks the promise.
    """
    return _JUDGES[limit](equation, first)


# On the sphere: later and later, until the limit is reached or tokens rest elsewhere


def _on_sphere(away: Callable[[Equation, np.ndarray, np.ndarray], float]):
    def judge(equation: Equation, first: np.ndarray) -> str:
        state, time, d = first, 0.0, len(equation.value)
        for end in (30.0, 300.0, 3000.0) if not equation.has_lengths else (1e3, 1e4, 1e5):
            state, time = solve(equation, state, np.array([time, end]))[-1], end
            if not np.all(np.isfinite(state)):
                return OPEN
            state[:, :d] /= np.linalg.norm(state[:, :d], axis=1, keepdims=True)
            if away(equation, first[:, :d], state[:, :d]) < CLOSE:
                return HELD
        speed = np.abs(equation.rate(time, state)[:, :d]).max() * (state[:, -1].max() if equation.has_lengths else 1)
        return BROKEN if speed < AT_REST else OPEN

    return judge


def _spread(equation: Equation, first: np.ndarray, last: np.ndarray) -> float:
    del equation, first
    return float(np.linalg.norm(last - last[0], axis=1).max())


def _from_first_token(equation: Equation, first: np.ndarray, last: np.ndarray) -> float:
    del equation
    return float(np.linalg.norm(last - first[0], axis=1).max())


def _from_part_in_leading_space(equation: Equation, first: np.ndarray, last: np.ndarray) -> float:
    lead = np.linalg.eigvals(equation.value).real.max()
    grown = expm(200 / abs(lead) * (equation.value - lead * np.eye(len(equation.value)))) @ first[0]
    return float(np.linalg.norm(last - grown / np.linalg.norm(grown), axis=1).max())


def _from_poles(equation: Equation, first: np.ndarray, last: np.ndarray) -> float:
    del first
    eigenvalues, vectors = np.linalg.eig(equation.value)
    xi = np.real(vectors[:, np.argmax(eigenvalues.real)])
    xi /= np.linalg.norm(xi)
    return float(np.minimum(np.linalg.norm(last - xi, axis=1), np.linalg.norm(last + xi, axis=1)).max())


# In R^d: at late times in units of 1/lambda


def _late(equation: Equation, first: np.ndarray, folds: float) -> tuple[np.ndarray, np.ndarray]:
    lead = np.linalg.eigvals(equation.value).real.max()
    times = np.linspace(0, folds / lead, 26)
    return times, solve(equation, first, times)


def _settled(parts: np.ndarray) -> bool:
    size = np.abs(parts[0]).max() or 1.0
    return bool(np.all(np.isfinite(parts))) and float(np.abs(parts[-6:] - parts[-1]).max()) < STILL * size


def _decided(is_settled: bool, is_reached: bool) -> str:
    return OPEN if not is_settled else HELD if is_reached else BROKEN


def _leading_part(equation: Equation, states: np.ndarray) -> np.ndarray:
    """Coordinates along the leading eigenvectors, the other generalised eigenvectors being the complement."""
    eigenvalues, left = np.linalg.eig(equation.value.T)
    leading = eigenvalues.real > eigenvalues.real.max() - 1e-6
    return states @ np.real(left[:, leading])


def _polytope(equation: Equation, first: np.ndarray) -> str:
    """S: <z, B z> is the largest of <z, B z_j>."""
    _, states = _late(equation, first, 22.0)
    gram = states[-1] @ equation.scores @ states[-1].T
    miss = np.abs(gram.max(axis=1) - np.diag(gram)).max() / np.abs(gram).max()
    return _decided(_settled(states), miss < CLOSE)


def _hyperplanes(equation: Equation, first: np.ndarray) -> str:
    _, states = _late(equation, first, 22.0)
    part = _leading_part(equation, states)[..., :1]
    last = np.sort(part[-1, :, 0])
    count = 1 + int(np.sum(np.diff(last) > 10 * CLOSE * np.abs(part[0]).max()))
    return _decided(_settled(part), count <= 3)


def _boundary(equation: Equation, first: np.ndarray) -> str:
    """The leading part on the boundary of its hull, or at 0."""
    _, states = _late(equation, first, 22.0)
    part = _leading_part(equation, states)
    last, size = part[-1], np.abs(part[0]).max()
    if not _settled(part):
        return OPEN
    if last.shape[1] == 1:
        levels = np.array([last.min(), last.max()])
        edge = np.abs(last - levels).min(axis=1)
    else:
        try:
            planes = ConvexHull(last).equations
        except (QhullError, ValueError):  # a flat hull is its own boundary
            return HELD
        edge = (-last @ planes[:, :-1].T - planes[:, -1]).min(axis=1)
    return _decided(True, np.minimum(edge, np.linalg.norm(last, axis=1)).max() < CLOSE * size)


def _boolean(equation: Equation, first: np.ndarray) -> str:
    """All rows of A but one are on the least or the greatest first token."""
    times, states = _late(equation, first, 18.0)
    if not np.all(np.isfinite(states)):
        return OPEN
    ends = [int(first.argmin()), int(first.argmax())]

    def missing(index: int) -> float:
        matrix = equation.weights_at(times[index], states[index])
        rows = np.sort(1 - matrix[:, ends].max(axis=1))
        return float(rows[-2] if len(rows) > 2 else rows[-1])

    if missing(-1) < CLOSE:
        return HELD
    return OPEN if missing(-1) < missing(len(times) // 2) or not _settled(states) else BROKEN


def _zero(equation: Equation, first: np.ndarray) -> str:
    """2ct Cov(x) tends to B^{-1} for V = -c I; x itself is integrated, since z = e^{ct} x overflows."""
    decay = -float(equation.value[0, 0])
    root = np.real(sqrtm(equation.scores))

    def rate(_: float, x: np.ndarray) -> np.ndarray:
        return -decay * equation.weights(x) @ x

    from scipy.integrate import solve_ivp

    ends = np.array([0.0, 300.0, 3000.0]) / decay
    flat = lambda time, x: rate(time, x.reshape(first.shape)).ravel()
    found = solve_ivp(flat, (0, ends[-1]), first.ravel(), t_eval=ends, rtol=1e-8, atol=1e-12, method="LSODA")
    if found.y.shape[1] < 3:
        return OPEN
    misses = []
    for end, x in zip(ends[1:], found.y.T[1:], strict=True):
        covariance = root @ np.atleast_2d(np.cov(x.reshape(first.shape).T, bias=True)) @ root
        misses.append(np.abs(2 * decay * end * covariance - np.eye(len(root))).max())
    return HELD if misses[1] < 0.1 else OPEN if misses[1] < misses[0] else BROKEN


def _at_rest(equation: Equation, first: np.ndarray) -> str:
    state = equation.rate(0.0, first)[:, : len(equation.value)]
    return HELD if not np.any(state) else BROKEN


def _not_tested(equation: Equation, first: np.ndarray) -> str:
    del equation, first
    return NOT_TESTED


_JUDGES = {
    "at-rest": _at_rest,
    "polytope": _polytope,
    "leaders": _polytope,
    "hyperplanes": _hyperplanes,
    "polytope-times-hyperplane": _boundary,
    "boolean": _boolean,
    "zero": _zero,
    "first-token": _on_sphere(_from_first_token),
    "point": _on_sphere(_spread),
    "point-of-subspace": _on_sphere(_from_part_in_leading_space),
    "poles": _on_sphere(_from_poles),
    "cloud-around-subspace": _not_tested,
    "clouds-around-poles": _not_tested,
}
