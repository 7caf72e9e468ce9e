"""Parameters of figures as users give them: read from text, checked against the values of the catalogue."""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from attnflow._common.checks import InputError
from attnflow.figures.figure import Figure

LEAST = {"seed": 0, "runs": 0, "layer": 0, "n": 2, "saves": 2, "betas": 2, "kappas": 2, "points": 2, "d": 2, "draws": 2}
"""Least whole number of a parameter; 1 for all others."""
POSITIVE = ("end", "step", "alpha", "c", "radius", "deviation", "cosine", "largest", "largest_beta", "least_kappa",
            "largest_kappa", "sizes", "factors", "slope", "width", "periods")  # fmt: skip
"""Numbers with a fraction that must be above zero."""


def changed_figure(figure: Figure, given: Mapping[str, Any]) -> Figure:
    """The figure with parameters from Python; InputError if one does not exist or has an unsuitable value."""
    return figure.with_changes({name: _checked(figure, name, value) for name, value in given.items()})


def from_texts(figure: Figure, texts: Iterable[str]) -> dict[str, Any]:
    """Parameters of a figure from texts such as ``n=80``, ``betas=1,2,4`` or ``tokens=[[1, 0], [0, 1]]``."""
    given = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"A parameter must be given as NAME=VALUE, but it is {text!r}{_known(figure)}")
        given[name.strip()] = _read(figure, name.strip(), value.strip())
    return given


def parameter_list(figure: Figure, is_quick: bool = False) -> str:
    """The parameters of a figure with their values.

    Examples
    --------
    >>> from attnflow.figures.catalogue import find
    >>> parameter_list(find("force"))
    'beta = 10.0, points = 721'
    """
    parameters = figure.parameters_of(is_quick)
    return ", ".join(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in parameters.items())


def _known(figure: Figure) -> str:
    return f"; the parameters of {figure.id} are {parameter_list(figure)}."


def _require_parameter(figure: Figure, name: str) -> Any:
    """The value in the catalogue of a parameter; InputError if the figure has no such parameter."""
    if name in figure.fixed:
        raise InputError(f"`{name}` cannot be changed in {figure.id}, whose title depends on it{_known(figure)}")
    if name not in figure.settings:
        raise InputError(f"`{name}` is no parameter of {figure.id}{_known(figure)}")
    return figure.settings[name]


def _read(figure: Figure, name: str, text: str) -> Any:
    default = _require_parameter(figure, name)
    if isinstance(default, str):
        return text
    if isinstance(default, list) and not text.startswith("["):
        is_text = isinstance(default[0], str)
        parts = [part.strip() for part in text.split(",")]
        text = json.dumps(parts) if is_text else f"[{','.join(parts)}]"
    try:
        return json.loads(text)
    except ValueError:
        return text  # which is refused with the same sentence as any other unsuitable value


def _checked(figure: Figure, name: str, value: Any) -> Any:
    """The value of a parameter, in the type of the catalogue's."""
    default = _require_parameter(figure, name)
    value = value.tolist() if hasattr(value, "tolist") else value  # arrays and numbers of NumPy
    kind = _Kind(LEAST.get(name, 1), name in POSITIVE)
    if not _has_kind(value, default, kind):
        expected = _kind_in_words(default, kind)
        raise InputError(f"`{name}` of {figure.id} must be {expected}, but it is {value!r}{_known(figure)}")
    return _converted(value, default)


class _Kind(NamedTuple):
    """The range of a parameter."""

    least: int
    """Least whole number."""
    is_positive: bool
    """Whether a number with a fraction must be above zero."""


def _has_kind(value: Any, default: Any, kind: _Kind) -> bool:
    """Whether a value is of the kind of the catalogue's: text, number, or a list or dictionary of such."""
    if isinstance(default, list):
        is_list = isinstance(value, list | tuple) and len(value) > 0
        return is_list and all(_has_kind(entry, _pattern(default), kind) for entry in value)
    if isinstance(default, dict):
        patterns = list(default.values())
        is_known = isinstance(value, dict) and len(value) > 0
        return is_known and all(_has_kind(one, patterns[0], _Kind(0, False)) or one == [] for one in value.values())
    if isinstance(default, str):
        return isinstance(value, str)
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if isinstance(default, int):
        return is_number and float(value).is_integer() and value >= kind.least
    return is_number and (value > 0 or not kind.is_positive)


def _pattern(default: list) -> Any:
    """The entry that stands for the kind of a list's entries: a number with a fraction if there is one."""
    return next((entry for entry in default if isinstance(entry, float)), default[0])


def _converted(value: Any, default: Any) -> Any:
    """The value with whole numbers as integers where the catalogue has them, else as floats."""
    if isinstance(default, list):
        return [_converted(entry, _pattern(default)) for entry in value]
    if isinstance(default, dict):
        return value
    return type(default)(value)


def _kind_in_words(default: Any, kind: _Kind) -> str:
    if isinstance(default, list):
        entry = _pattern(default)
        return f"a list, each entry of it {_kind_in_words(entry, kind)}"
    if isinstance(default, dict):
        return "a dictionary like that of the catalogue, written as JSON"
    if isinstance(default, str):
        return "text"
    if isinstance(default, int):
        return f"a whole number, at least {kind.least}"
    return "a finite number above zero" if kind.is_positive else "a finite number"
