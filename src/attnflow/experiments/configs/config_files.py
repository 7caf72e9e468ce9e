"""Files of settings: `load_config` and `save_config`."""

import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from attnflow._common.checks import InputError
from attnflow._common.files import require_free, require_suffix, written_beside
from attnflow._common.memory import require_memory
from attnflow.experiments.configs.config_text import config_text
from attnflow.experiments.configs.kinds import checked
from attnflow.experiments.configs.prepared_run import expanded
from attnflow.experiments.configs.run_config import RunConfig
from attnflow.experiments.options import ALL_OPTIONS
from attnflow.experiments.vocabulary import is_file

MAX_INLINE_ENTRIES = 64  # of an array in the text, eight rows of eight; larger arrays are files beside it
BYTES_OF_A_CHARACTER = 100  # of memory, for the text of a file as nested lists of Python numbers


def load_config(path: str | os.PathLike) -> RunConfig:
    """The run that a file of settings describes.

    The file is TOML; its keys are the options of ``attnflow run``, and further ones for what an option cannot say:
    ``[[head]]`` with `query`, `key`, `value`, `output`, or with `switches` and ``[[head.piece]]``; `masses`, `frozen`,
    ``[[perceptron]]`` with `outer`, `inner`, `bias`, `activation`, `times`, `stop`, `observables`. Names of
    files are relative to it.

    Parameters
    ----------
    path
        A file of settings (TOML).

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "mine.toml")
    >>> _ = path.write_text('scenario = "sphere"\\nn = 8\\nvalue = [[2, 0, 0], [0, 1, 0], [0, 0, 1]]\\n')
    >>> config = load_config(path)
    >>> config.run().sizes["token"]
    8
    """
    path = Path(path)
    try:
        values = checked(_parsed(path), ALL_OPTIONS)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    if not values:
        raise InputError(f'{path}: there are no settings. Write at least a line such as scenario = "sphere".')
    return RunConfig(with_paths(values, lambda word: str(path.parent / word)), str(path))


def parse_config(text: str) -> RunConfig:
    """The run that the text of a file of settings describes; names of files are relative to the working directory."""
    return RunConfig(checked(_tables(text), ALL_OPTIONS))


def _parsed(path: Path) -> dict[str, Any]:
    try:
        if not os.path.exists(path):
            raise InputError("there is no such file.")
        if not path.is_file():
            raise InputError("it is not a file.")
        require_memory(BYTES_OF_A_CHARACTER * path.stat().st_size, str(path))
        return _tables(path.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InputError("it is not a text file in UTF-8.") from None
    except OSError as error:
        raise InputError(f"it cannot be read: {error.strerror or error}.") from error


def _tables(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"it is not valid TOML: {error}.") from error
    except RecursionError:
        raise InputError("it is not valid TOML: brackets are nested too deeply.") from None


def save_config(config: RunConfig, path: str | os.PathLike, *, overwrite: bool = False) -> Path:
    """Write a file of settings with every option that acts, and return its path; arrays of more than 64 numbers are \
written as .npy files beside it.

    Parameters
    ----------
    config
        A run in words and numbers: what `load_config` or `config_of` returns.
    path
        The file to write; its name ends in .toml.
    overwrite
        Replace files that exist.

    Examples
    --------
    >>> import tempfile, attnflow as af
    >>> flow = af.SphereAttention(af.Head(value=np.diag([2.0, 1.0])), af.Softmax(4.0), masses=[1.0, 2.0, 1.0])
    >>> run = af.simulate(flow, af.initial.circle(3, rng=0), [0.0, 0.5, 2.0])
    >>> path = save_config(af.config_of(run), Path(tempfile.mkdtemp(), "mine.toml"))
    >>> bool((af.load_config(path).run().tokens == run.tokens).all())
    True
    """
    require_suffix(path, "A file of settings", (".toml",))
    path = require_free(path, overwrite=overwrite)
    whole = expanded(config)
    folder = os.path.realpath(path.parent)
    values = with_paths(whole.values, lambda word: os.path.relpath(os.path.realpath(word), folder))
    arrays: dict[Path, np.ndarray] = {}
    values = _with_files(values, path, arrays)
    for beside in arrays:
        require_free(beside, overwrite=overwrite)
    for beside, array in arrays.items():
        with written_beside(beside) as part, part.open("wb") as file:
            np.save(file, array, allow_pickle=False)
    with written_beside(path) as part:
        part.write_text(config_text(RunConfig(values)), encoding="utf-8")
    return path


def _with_files(values: Any, path: Path, arrays: dict[Path, np.ndarray], place: tuple[str, ...] = ()) -> Any:
    """The values with large arrays replaced by the names of files, which are added to `arrays`."""
    if isinstance(values, dict):
        return {name: _with_files(value, path, arrays, (*place, name)) for name, value in values.items()}
    if isinstance(values, list):
        return [_with_files(value, path, arrays, (*place, str(index))) for index, value in enumerate(values, start=1)]
    if not isinstance(values, np.ndarray) or values.size <= MAX_INLINE_ENTRIES:
        return values
    name = "-".join((path.stem, *place)) + ".npy"
    arrays[path.with_name(name)] = values
    return name


def with_paths(values: Any, moved: Callable[[str], str], is_joined: bool = False) -> Any:
    """The values with the name of every file replaced; with `is_joined`, a plus joins several names."""
    if isinstance(values, dict):
        return {name: with_paths(value, moved, name == "mask") for name, value in values.items()}
    if isinstance(values, list):
        return [with_paths(value, moved, is_joined) for value in values]
    if not isinstance(values, str):
        return values
    parts = values.split("+") if is_joined else [values]
    return "+".join(moved(part) if is_file(part) else part for part in parts)
