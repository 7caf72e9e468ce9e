"""The command line's words for a model, shared by the commands that take one."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

_HELP: dict[str, tuple[type, str]] = {
    "n": (int, "Number of tokens."),
    "d": (int, "Dimension."),
    "beta": (float, "Inverse temperature; may be negative."),
    "seed": (int, "Seed of weights, start and noise."),
    "end": (float, "Last time."),
    "saves": (int, "How many times are kept."),
    "spacing": (str, "Of the times: linear or log."),
    "runs": (int, "Size of an ensemble."),
    "space": (str, "euclidean, rescaled or sphere."),
    "value": (
        str,
        "V by spectrum: identity, minus-identity, perron-frobenius, gaussian, goe, jordan:1, pair:0.5,2, "
        "diagonal:2,1, eigenvalues:2,1, eigenvalues-random:2,1, matrix:0,1,-1,0 (row by row), or a .npy or .csv file.",
    ),
    "query_key": (str, "Q^T K, in the words of --value."),
    "heads": (int, "Number of heads."),
    "redraw": (float, "Draw the weights anew every so much time."),
    "attention": (str, "softmax, unnormalised, unnormalised:OFFSET, hardmax, sinkhorn:ITERATIONS."),
    "mask": (
        str,
        "full, causal, strictly-causal, others, window:WIDTH, alibi:SLOPE, a .npy or .csv file; joined with +.",
    ),
    "normalisation": (str, "On the sphere: post, pre, mix:TIME, peri, ngpt:ALPHA, sqrt."),
    "mlp": (str, "Feed-forward layer: relu, tanh, gelu, identity."),
    "kappa": (float, "Noise sqrt(2 / kappa) dW."),
    "start": (
        str,
        "box:LOW,HIGH, ball:RADIUS, gaussian:DEVIATION, sphere, hemisphere, circle, equiangular:COSINE, "
        "angles:FIRST,SECOND,..., or a .npy or .csv file.",
    ),
    "solver": (
        str,
        "tsit5, dopri8, kvaerno5, euler:STEP, heun:STEP, rk4:STEP, layers:STEP,RESIDUAL, stochastic-heun:STEP.",
    ),
    "rtol": (float, "Relative tolerance of adaptive solvers."),
    "atol": (float, "Absolute tolerance of adaptive solvers."),
}
MODEL_OPTIONS = {name: Annotated[kind | None, typer.Option(help=text)] for name, (kind, text) in _HELP.items()}


def with_model_options(command: Callable) -> Callable:
    """A command that takes all of `MODEL_OPTIONS` besides its own and gets them as the dict `changes`."""
    own = [one for one in inspect.signature(command).parameters.values() if one.name != "changes"]
    optional = inspect.Parameter.KEYWORD_ONLY
    added = [inspect.Parameter(name, optional, default=None, annotation=kind) for name, kind in MODEL_OPTIONS.items()]

    @functools.wraps(command)
    def taking_options(**given: Any) -> Any:
        changes = {name: given.pop(name) for name in MODEL_OPTIONS}
        return command(changes=changes, **given)

    first, rest = own[0], [one.replace(kind=optional) for one in own[1:]]
    wrapped: Any = taking_options
    wrapped.__signature__ = inspect.Signature([first, *added, *rest])
    wrapped.__annotations__ = {one.name: one.annotation for one in (*added, *own)}
    return wrapped
