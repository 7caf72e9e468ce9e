"""Axes of a sweep: the values of a setting, or the rows of a table with several settings."""

import csv
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attnflow._common.checks import InputError, require_known
from attnflow.experiments.options import ALL_OPTIONS, LIMITS, SCENARIO_OPTIONS
from attnflow.experiments.vocabulary import is_file

TIMES_OF_ALL = ("end", "saves", "spacing")
# Settings that can differ between cells. Times are common to all cells, and runs and seed have keys of their own.
SWEPT = {"scenario", *SCENARIO_OPTIONS, *LIMITS, "max_steps", "min_step"} - {*TIMES_OF_ALL, "runs", "budget"}
ROW = "row"  # name of the axis of a table
DIGITS = 12  # significant ones, of the values of a range: 4:256:7log has the value 8, not 8.000000000000002


@dataclass(frozen=True)
class Axis:
    """One axis: for each place along it the values of one setting, or of several where a table is given.

    Examples
    --------
    >>> axis = Axis.of("beta", "4:64:3log")
    >>> axis.columns
    {'beta': (4.0, 16.0, 64.0)}
    >>> axis.places()[1]
    {'beta': 16.0}
    """

    name: str
    columns: Mapping[str, tuple[Any, ...]]
    """Values of each setting, all of the same length."""

    @classmethod
    def of(cls, name: str, given: Any) -> "Axis":
        """The axis of one setting, from a list of values or from text as on the command line."""
        _require_swept(name)
        values = _from_text(name, given) if isinstance(given, str) else _from_list(name, given)
        _require_values(name, values)
        return cls(name, {name: values})

    @property
    def size(self) -> int:
        """The number of places."""
        return len(next(iter(self.columns.values())))

    def places(self) -> list[dict[str, Any]]:
        """The settings of every place, by name."""
        return [dict(zip(self.columns, values, strict=True)) for values in zip(*self.columns.values(), strict=True)]


def require_axes(axes: Sequence[Axis]) -> None:
    """Raise InputError if a setting has two axes."""
    names = [name for axis in axes for name in axis.columns]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"`{name}` is varied by {names.count(name)} axes. Give it one axis.")


def _require_swept(name: str) -> None:
    if name in TIMES_OF_ALL:
        raise InputError(f"`{name}` cannot be an axis: all cells have the same times. Give it as a setting.")
    if name == "runs":
        raise InputError("`runs` cannot be an axis: it is the number of runs of each cell.")
    require_known(name, sorted(SWEPT), "axis")


def _require_values(name: str, values: tuple[Any, ...]) -> None:
    if not values:
        raise InputError(f"Axis `{name}` is empty. Give one or more values, such as {name}=1,2.")
    for value, count in Counter(values).items():
        if count > 1:
            raise InputError(f"Axis `{name}` has the value {value!r} {count} times. Give it once.")
        if isinstance(value, str) and is_file(value):
            raise InputError(f"Axis `{name}` names the file {value}, but a sweep varies words and numbers only.")


def kind_of(name: str) -> str:
    """The kind of a setting: "number", "whole", or another, whose values are words."""
    return ALL_OPTIONS[name].kind


def value_of(name: str, given: Any, argument: str) -> Any:
    """A value of the kind of the setting, from a value or its text."""
    kind = kind_of(name)
    if kind not in ("number", "whole"):
        if not isinstance(given, str):
            raise InputError(f"{argument} must be a word, but it is {given!r}.")
        return given.strip()
    try:
        number = math.nan if isinstance(given, bool) else float(given)
    except (TypeError, ValueError):
        number = math.nan
    if kind == "number" and math.isfinite(number):
        return number
    if kind == "whole" and number.is_integer():
        return int(number)
    raise InputError(f"{argument} must be a {'finite' if kind == 'number' else 'whole'} number, but it is {given!r}.")


def _from_list(name: str, given: Any) -> tuple[Any, ...]:
    if isinstance(given, str | Mapping) or not np.iterable(given):
        raise InputError(f"Axis `{name}` must be a list of values, or text such as '4:256:7log', but it is {given!r}.")
    plain = [value.item() if isinstance(value, np.generic) else value for value in given]
    return tuple(value_of(name, value, f"A value of axis `{name}`") for value in plain)


def _from_text(name: str, text: str) -> tuple[Any, ...]:
    """Values with commas or, where words hold commas, semicolons between; or a range LOW:HIGH:COUNT[log] of numbers."""
    if not text.strip():
        return ()
    is_number = kind_of(name) in ("number", "whole")
    if is_number and ":" in text:
        return _range(name, text)
    parts = [part.strip() for part in text.split(";" if ";" in text else ",")]
    if not is_number and ";" not in text and any(_is_number(part) for part in parts):
        raise InputError(
            f"Axis `{name}` is {text!r}, which contains commas both between and inside words. Separate words that "
            f"contain commas by semicolons, as in {name}='diagonal:1,0.5;diagonal:1,2', and end a single one with one."
        )
    parts = parts[:-1] if text.rstrip().endswith(";") else parts
    if "" in parts:
        raise InputError(f"Axis `{name}` has an empty value in {text!r}.")
    return tuple(value_of(name, part, f"A value of axis `{name}`") for part in parts)


def _range(name: str, text: str) -> tuple[Any, ...]:
    """The evenly spaced numbers of LOW:HIGH:COUNT, or evenly spaced in their logarithm for LOW:HIGH:COUNTlog."""
    parts = text.split(":")
    is_log = parts[-1].strip().endswith("log")
    count_text = parts[-1].strip().removesuffix("log")
    if len(parts) != 3 or not all(_is_number(part) for part in parts[:2]) or not count_text.isdigit():
        raise InputError(f"Axis `{name}` is {text!r}, but a range is LOW:HIGH:COUNT or LOW:HIGH:COUNTlog.")
    low, high, count = float(parts[0]), float(parts[1]), int(count_text)
    if count > 10**6 or (count > 1 and not low < high) or (is_log and not low > 0):
        needed = "0 < LOW < HIGH" if is_log else "LOW < HIGH"
        raise InputError(f"Axis `{name}` is {text!r}, but a range has {needed} and at most 1000000 values.")
    numbers = np.geomspace(low, high, count) if is_log else np.linspace(low, high, count)
    rounded = [float(f"{number:.{DIGITS}g}") for number in numbers]
    if kind_of(name) == "whole":
        rounded = [round(number) for number in rounded]
    return tuple(value_of(name, number, f"A value of axis `{name}`") for number in rounded)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def table_axis(path: str | Path) -> Axis:
    """The axis `row` of a CSV file: a heading with names of settings, and one row for each place."""
    try:
        text = Path(path).read_text("utf-8-sig")
    except OSError as error:
        raise InputError(f"The table {path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError:
        raise InputError(f"The table {path} is not a text file in UTF-8.") from None
    rows = [[field.strip() for field in row] for row in csv.reader(text.splitlines()) if any(map(str.strip, row))]
    if len(rows) < 2:
        raise InputError(f"The table {path} needs a heading and one or more rows, but it has {len(rows)} lines.")
    heading, *body = rows
    return rows_axis(heading, body, f"the table {path}")


def rows_axis(heading: Sequence[str], body: Sequence[Sequence[Any]], source: str) -> Axis:
    """The axis of the rows of a table; `source` names it in messages."""
    for place, name in enumerate(heading, start=1):
        if not name:
            raise InputError(f"Column {place} of {source} has no name. Write the name of a setting above it.")
        if heading.count(name) > 1:
            raise InputError(f"Column {name!r} stands {heading.count(name)} times in {source}. Give it once.")
        _require_swept(name)
    for number, row in enumerate(body, start=1):
        if len(row) != len(heading) or any(field == "" for field in row):
            missing = next((name for name, field in zip(heading, row, strict=False) if field == ""), None)
            found = f"no `{missing}`" if missing is not None else f"{len(row)} fields instead of {len(heading)}"
            raise InputError(f"Row {number} of {source} has {found}. Fill every field.")
    columns = {
        name: tuple(
            value_of(name, row[place], f"`{name}` in row {number} of {source}") for number, row in enumerate(body, 1)
        )
        for place, name in enumerate(heading)
    }
    first: dict[tuple[Any, ...], int] = {}
    for number, place in enumerate(zip(*columns.values(), strict=True), start=1):
        if first.setdefault(place, number) != number:
            raise InputError(f"Rows {first[place]} and {number} of {source} are equal. Remove one.")
    return Axis(ROW, columns)
