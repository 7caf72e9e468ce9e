"""The tests that are likely to notice a mutant, by their place and by the names that they use."""

import re
from pathlib import Path

from tests.mutation.mutants import Mutant

LEFT_OUT = ("test_package.py", "test_types.py", "test_browser.py")
"""Tests of the text of the sources, of annotations, and of the page in a browser."""


def words_of(mutant: Mutant) -> list[str]:
    """Names by which a test can be seen to use the mutated code."""
    names = [*mutant.function.split("."), Path(mutant.path).stem, mutant.constant]
    return [name for name in dict.fromkeys(name.strip("_") for name in names) if len(name) > 3 and name != "module"]


def mentions(text: str, words: list[str]) -> int:
    """How many of the words occur in a text."""
    return sum(bool(re.search(rf"\b_?{re.escape(word)}\b", text)) for word in words)


def is_near(file: Path, mutant: Mutant) -> int:
    """How near a test file is to the place of a mutant: 20 its mirror, 4 the same package, 1 any other."""
    place = Path(mutant.path)
    if file.stem == f"test_{place.stem}" and place.parts[0] in file.parts:
        return 20
    return 4 if place.parts[0] in file.parts else 1
