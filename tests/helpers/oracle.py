"""The models once more, in plain NumPy and SciPy, written from the equations.

Nothing here is shared with attnflow. Scores are not shifted by the maximum of a row, sums are not split into blocks,
and e^{tV} is formed with its scale, so that the results are right for moderate scores and short times only. The state
of every model is tokens (n x d) and their lengths (n), which are constant in most models.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.integrate import solve_ivp
from scipy.linalg import expm

# -- masks: a matrix of booleans, and a matrix of factors on the weights


class Mask(NamedTuple):
    """Row i: the tokens that token i sees, and the factors on its weights."""

    visible: np.ndarray
    factor: np.ndarray


def mask(n, sees=lambda i, j: True, factor=lambda i, j: 1.0):
    """Full unless `sees` says less, as j <= i does for causal; ALiBi is the factor e^{-slope |i - j|}."""
    visible = [[sees(i, j) for j in range(n)] for i in range(n)]
    factors = [[factor(i, j) for j in range(n)] for i in range(n)]
    return Mask(np.array(visible, dtype=bool), np.array(factors, dtype=float))


# -- attention rules: (scores, mask, masses) -> weights


def softmax(beta):
    """A_ij proportional to m_j f_ij e^{beta s_ij}, rows sum to one."""
    return lambda scores, mask, masses: _rows_divided(_kernel(_below_zero(beta * scores, mask), mask, masses))


def unnormalised(beta, offset=0.0):
    """A_ij = m_j f_ij e^{beta (s_ij - offset)} / (sum of all masses)."""
    return lambda scores, mask, masses: _kernel(beta * (scores - offset), mask, masses) / masses.sum()


def hardmax(tolerance=1e-9):
    """A_ij proportional to m_j f_ij on the largest visible scores of row i, zero elsewhere."""
    best = lambda scores, mask: best_matches(scores, mask, tolerance)
    return lambda scores, mask, masses: _rows_divided(best(scores, mask) * mask.factor * masses[None, :])


def best_matches(scores, mask, tolerance=1e-9):
    """True where s_ij is the largest of row i, up to `tolerance` times the largest absolute score of the row."""
    best = np.zeros(scores.shape, dtype=bool)
    for i in np.flatnonzero(mask.visible.any(axis=1)):
        seen = scores[i, mask.visible[i]]
        best[i] = mask.visible[i] & (scores[i] >= seen.max() - tolerance * np.abs(seen).max())
    return best


def sinkhorn(beta, iterations):
    """Rows divided by their sums, columns brought to their masses, in turn, rows first and last."""

    def weights(scores, mask, masses):
        matrix = _kernel(_below_zero(beta * scores, mask), mask, masses)
        for iteration in range(iterations):
            if iteration % 2 == 0:
                matrix = _rows_divided(matrix)
            else:
                received = masses @ matrix
                matrix = matrix * (masses / np.where(received > 0, received, np.inf))[None, :]
        return matrix

    return weights


def _kernel(logits, mask, masses):
    return np.where(mask.visible, np.exp(logits), 0.0) * mask.factor * masses[None, :]


def _below_zero(logits, mask):
    """Logits minus the largest visible one of their row, which normalised rows do not depend on."""
    largest = np.max(np.where(mask.visible, logits, -np.inf), axis=1, keepdims=True)
    return np.where(mask.visible, logits - np.where(np.isfinite(largest), largest, 0.0), -np.inf)


def _rows_divided(matrix):
    """Rows divided by their sums; a row of zeros stays one."""
    sums = matrix.sum(axis=1, keepdims=True)
    return matrix / np.where(sums > 0, sums, np.inf)


# -- normalisation: (time, radii, directions theta, attention output A) -> (slowness s, growth r')


def post(time, radii, directions, output):
    """s = 1; lengths stay."""
    return np.ones(len(output)), np.zeros(len(output))


def pre(time, radii, directions, output):
    """s = r, r' = <theta, A>."""
    return radii, (directions * output).sum(axis=1)


def peri(time, radii, directions, output):
    """s = r |A|, r' = <theta, A> / |A|."""
    return radii * _lengths(output), (directions * output).sum(axis=1) / _lengths(output)


def ngpt(alpha):
    """s = |A| / alpha; lengths stay."""
    return lambda time, radii, directions, output: (_lengths(output) / alpha, np.zeros(len(output)))


def sqrt(time, radii, directions, output):
    """s = sqrt(t + 1); lengths stay."""
    return np.full(len(output), np.sqrt(time + 1)), np.zeros(len(output))


def _lengths(vectors):
    return np.sqrt((vectors**2).sum(axis=1))


# -- feed-forward layer

ACTIVATIONS = {
    "identity": lambda y: y,
    "relu": lambda y: np.where(y > 0, y, 0.0),
    "tanh": np.tanh,
    # the usual approximation by tanh, within 5e-4 of y times the normal distribution function
    "gelu": lambda y: 0.5 * y * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y**3))),
    # three ReLUs
    "hat": lambda y: np.maximum(y + 1, 0) - 2 * np.maximum(y, 0) + np.maximum(y - 1, 0),
}


def mlp(weight, activation, bias):
    """y -> W sigma(y + b), a token a row."""
    return lambda output: np.array([weight @ ACTIVATIONS[activation](row + bias) for row in output])


def perceptron(outer, inner, bias, activation):
    """x -> W sigma(U x + b), a token a row, at any time."""
    return lambda time, tokens: np.array([outer @ ACTIVATIONS[activation](inner @ row + bias) for row in tokens])


# -- models


class Weights(NamedTuple):
    """Matrices of a head: query and key k x d, value d x d."""

    query: np.ndarray
    key: np.ndarray
    value: np.ndarray


@dataclass(frozen=True)
class Model:
    """What the three spaces have in common; `heads` are `Weights` or functions from time to them."""

    heads: Sequence[Weights | Callable]
    rule: Callable
    mask: Mask
    masses: np.ndarray | None = None
    frozen: np.ndarray = field(default_factory=lambda: np.array([False]))
    mlp: Callable = lambda output: output
    perceptron: Callable | None = None

    def at(self, time):
        return [head(time) if callable(head) else head for head in self.heads]

    def positions(self, time, tokens):
        return tokens

    def scores(self, time, tokens):
        """<Q x_i, K x_j>, a matrix a head."""
        x = self.positions(time, tokens)
        return [(x @ head.query.T) @ (x @ head.key.T).T for head in self.at(time)]

    def attention(self, time, tokens):
        masses = np.ones(len(tokens)) if self.masses is None else self.masses
        return np.array([self.rule(scores, self.mask, masses) for scores in self.scores(time, tokens)])

    def output(self, time, tokens):
        x, heads = self.positions(time, tokens), zip(self.attention(time, tokens), self.at(time), strict=True)
        return sum(weights @ x @ head.value.T for weights, head in heads)

    def drive(self, time, tokens):
        """The attention output after the MLP, plus the perceptron's drift."""
        attention = self.mlp(self.output(time, tokens)) if self.heads else np.zeros(tokens.shape)
        return attention if self.perceptron is None else attention + self.perceptron(time, tokens)

    def unless_frozen(self, moved, still):
        return np.where(self.frozen[:, None], still, moved)


@dataclass(frozen=True)
class Euclidean(Model):
    """x_i' = sum_j A_ij V x_j, summed over heads; a layer is x <- residual x + step times that."""

    def velocity(self, time, tokens, radii):
        return self.unless_frozen(self.drive(time, tokens), 0.0), np.zeros(len(tokens))

    def layer(self, time, tokens, radii, step, residual):
        moved = residual * tokens + step * self.drive(time, tokens)
        return self.unless_frozen(moved, tokens), radii


@dataclass(frozen=True)
class Sphere(Model):
    """theta_i' = P_i(A_i) / s_i, and r_i' as the normalisation has it."""

    normalisation: Callable = post

    def velocity(self, time, tokens, radii):
        output = self.drive(time, tokens)
        slowness, growth = self.normalisation(time, radii, tokens, output)
        tangent = np.array([a - (x @ a) * x for x, a in zip(tokens, output, strict=True)])
        return self.unless_frozen(tangent / slowness[:, None], 0.0), np.where(self.frozen, 0.0, growth)

    def layer(self, time, tokens, radii, step, residual):
        """x = r theta <- residual x + step r A / s; schemes without lengths forget the new one."""
        output = self.drive(time, tokens)
        slowness, _ = self.normalisation(time, radii, tokens, output)
        x = radii[:, None] * tokens
        moved = self.unless_frozen(residual * x + step * (radii / slowness)[:, None] * output, x)
        keeps = self.normalisation not in (pre, peri)
        return moved / _lengths(moved)[:, None], radii if keeps else _lengths(moved)


@dataclass(frozen=True)
class Rescaled(Model):
    """z = e^{-tV} x: z_i' = e^{-tV} sum_j A_ij V_h x_j - V z_i, with the weights A_ij of x."""

    frame: np.ndarray | None = None

    def rescaling(self):
        """V: the frame given, or the sum of the heads' value matrices."""
        return sum(head.value for head in self.heads) if self.frame is None else self.frame

    def growth(self, time):
        return _expm((time * self.rescaling()).tobytes())

    def positions(self, time, tokens):
        return tokens @ self.growth(time).T

    def velocity(self, time, tokens, radii):
        """The attention output at x, mapped to z, minus the motion of the frame; a frozen token has only the latter."""
        output = np.linalg.solve(self.growth(time), self.output(time, tokens).T).T
        moves = self.unless_frozen(output, 0.0) - tokens @ self.rescaling().T
        return self.mlp(moves), np.zeros(len(tokens))


# -- solving


class UnsolvedError(ArithmeticError):
    """SciPy cannot integrate the equation to the end, as where tokens reach infinity in finite time."""


def solve(model, tokens, times, radii=None):
    """Tokens and lengths at every time, by SciPy's DOP853 from one time to the next."""
    split = tokens.size

    def rate(time, flat):
        velocity, growth = model.velocity(time, flat[:split].reshape(tokens.shape), flat[split:])
        return np.concatenate([velocity.ravel(), growth])

    path = [np.concatenate([tokens.ravel(), _given(radii, tokens)])]
    for span in itertools.pairwise(times):
        run = solve_ivp(rate, span, path[-1], method="DOP853", rtol=1e-11, atol=1e-13)
        if not run.success:
            raise UnsolvedError(run.message)
        path.append(run.y[:, -1])
    return np.array(path)[:, :split].reshape(len(times), *tokens.shape), np.array(path)[:, split:]


def solve_in_pieces(models, switches, tokens, times, radii=None):
    """`models[0]` until `switches[0]`, `models[1]` until `switches[1]`, and so on to the last time."""
    start, state = times[0], (tokens, _given(radii, tokens))
    kept = [state]
    for model, end in zip(models, [*switches, times[-1]], strict=True):
        marks = [start, *(t for t in times if start < t < end), end]
        states = list(zip(*solve(model, state[0], marks, state[1]), strict=True))
        kept += [s for t, s in zip(marks[1:], states[1:], strict=True) if t in times]
        start, state = end, states[-1]
    return tuple(np.array(part) for part in zip(*kept, strict=True))


def euler(model, tokens, times, step):
    """Tokens at every time by equal Euler steps of length `step` or slightly less, on the sphere divided by lengths."""
    path, radii = [tokens], np.ones(len(tokens))
    for start, end in itertools.pairwise(times):
        marks, tokens = np.linspace(start, end, math.ceil((end - start) / step - 1e-6) + 1), path[-1]
        for time, after in itertools.pairwise(marks):
            tokens = tokens + (after - time) * model.velocity(time, tokens, radii)[0]
            if isinstance(model, Sphere):
                tokens = tokens / _lengths(tokens)[:, None]
        path.append(tokens)
    return np.array(path)


def layers(model, tokens, count, step, residual=1.0, radii=None):
    """Tokens and lengths after 0, 1, ..., `count` discrete layers."""
    path = [(tokens, _given(radii, tokens))]
    for k in range(count):
        path.append(model.layer(k * step, *path[-1], step, residual))
    return tuple(np.array(part) for part in zip(*path, strict=True))


def rescaled_layers(model, tokens, count, step, residual=1.0):
    """(residual I + step V)^{-k} x after k layers of x in R^d."""
    plain = Euclidean(model.heads, model.rule, model.mask, model.masses, model.frozen)
    path, _ = layers(plain, tokens, count, step, residual)
    back = np.linalg.inv(residual * np.eye(tokens.shape[1]) + step * model.rescaling())
    return np.array([x @ np.linalg.matrix_power(back, k).T for k, x in enumerate(path)])


def best_matches_stay(model, tokens, times, steps=40):
    """Whether no token changes its best matches on the way.

    Equal steps of Heun's method: an adaptive solver would never end where two matches alternate.
    """
    time, step = times[0], (times[-1] - times[0]) / steps
    rate = lambda time, x: model.velocity(time, x, np.ones(len(x)))[0]
    best = lambda time, x: np.array([best_matches(scores, model.mask) for scores in model.scores(time, x)])
    first = best(time, tokens)
    for _ in range(steps):
        one = rate(time, tokens)
        two = rate(time + step, tokens + step * one)
        time, tokens = time + step, tokens + step / 2 * (one + two)
        if not np.array_equal(best(time, tokens), first):
            return False
    return True


def _given(radii, tokens):
    return np.ones(len(tokens)) if radii is None else radii


@lru_cache(maxsize=8)  # it takes longer than all the rest of a velocity
def _expm(entries):
    matrix = np.frombuffer(entries)
    return expm(matrix.reshape(math.isqrt(matrix.size), -1))
