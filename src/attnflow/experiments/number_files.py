"""Arrays of numbers in files: .npy, .npz, and tables in .csv or .txt with or without a header line."""

import csv
import re
import zipfile
from pathlib import Path

import numpy as np

from attnflow._common.checks import InputError
from attnflow._common.memory import require_memory
from attnflow.experiments.vocabulary import NAMED

BYTES_OF_A_CHARACTER = 32  # of memory, for a table read as text, split into fields and converted to floats
HOW_TO_WRITE = "Write it with numpy.save(path, array), where the array holds real numbers."


def read_numbers(word: str, argument: str) -> np.ndarray:
    """The array in a file; of an .npz file the only one, or the one named after a colon. Pickles are refused."""
    path, name = _path_and_name(word)
    try:
        if not path.exists():
            raise InputError("there is no such file.")
        if not path.is_file():
            raise InputError("it is not a file.")
        suffix = path.suffix.lower()
        numbers = {".npy": _of_npy, ".npz": lambda file: _of_npz(file, name)}.get(suffix, _of_table)(path)
        if numbers.dtype.kind not in "fiub":
            raise InputError(f"it holds values of type {numbers.dtype}, which are not real numbers. {HOW_TO_WRITE}")
    except InputError as error:
        raise InputError(f"`{argument}` names the file {word}, which cannot be used: {error}") from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"`{argument}` names the file {word}, which cannot be read: {reason}.") from error
    return numbers


def _path_and_name(word: str) -> tuple[Path, str]:
    """The path of a file, and the name of one of its arrays where the word has one."""
    place = word.lower().rfind(NAMED)
    end = place + len(NAMED)
    return (Path(word), "") if place < 0 else (Path(word[: end - 1]), word[end:])


def _of_npy(path: Path) -> np.ndarray:
    try:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)  # reads the header only
        require_memory(mapped.nbytes, str(path))
        return np.array(mapped)
    except (ValueError, EOFError, AttributeError, SyntaxError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"it is damaged, or holds Python objects instead of numbers. {HOW_TO_WRITE}") from error


def _of_npz(path: Path, name: str) -> np.ndarray:
    if not zipfile.is_zipfile(path):
        raise InputError("it is no whole .npz file. Write it with numpy.savez(path, tokens=array).")
    with np.load(path, allow_pickle=False) as arrays:
        names = list(arrays.files)
        listed = ", ".join(names) or "none"
        if not name and len(names) != 1:
            raise InputError(f"it must hold one array, but it holds {listed}. Name one, as in {path.name}:NAME.")
        if name and name not in names:
            raise InputError(f"it has no array {name!r}. Its arrays: {listed}.")
        chosen = name or names[0]
        size = sum(entry.file_size for entry in arrays.zip.infolist() if entry.filename in (chosen, f"{chosen}.npy"))
        require_memory(size, str(path))
        try:
            return np.asarray(arrays[chosen])
        except (ValueError, EOFError, KeyError, zipfile.BadZipFile, SyntaxError) as error:
            raise InputError(
                f"its array {chosen!r} is damaged, or holds Python objects instead of numbers. "
                "Write it with numpy.savez(path, tokens=array), where the array holds real numbers."
            ) from error


def _of_table(path: Path) -> np.ndarray:
    """The table of a text file: fields with commas between in .csv, with white space between in .txt."""
    require_memory(BYTES_OF_A_CHARACTER * path.stat().st_size, str(path))
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("it is not a text file in UTF-8.") from None
    is_csv = path.suffix.lower() == ".csv"
    rows: list[list[float]] = []
    for line, content in enumerate(text.splitlines(), start=1):
        fields = _fields(content.partition("#")[0], is_csv)
        is_header = not rows and line == 1 and not any(map(_is_number, fields))
        if fields and not is_header:
            rows.append(_row(fields, line, rows))
    if not rows:
        raise InputError(f"it has no line of numbers with {'commas' if is_csv else 'white space'} between.")
    return np.array(rows)


def _fields(content: str, is_csv: bool) -> list[str]:
    if not content.strip():
        return []
    return next(csv.reader([content])) if is_csv else content.split()


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _row(fields: list[str], line: int, before: list[list[float]]) -> list[float]:
    wrong = next((place for place, field in enumerate(fields, start=1) if not _is_number(field)), None)
    if wrong is not None:
        has_others = len(fields) == 1 and re.search(r"\d[;\s]+[-+.\d]", fields[0])
        commas = "; commas stand between numbers" if has_others else ""
        found = f"line {line} has {fields[wrong - 1]!r} in column {wrong}"
        raise InputError(f"{found}, where a number is expected{commas}.")
    if before and len(fields) != len(before[0]):
        raise InputError(
            f"line {line} has another number of columns than the lines before, {len(fields)} and not {len(before[0])}."
        )
    return [float(field) for field in fields]
