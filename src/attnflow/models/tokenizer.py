"""Text to ids and ids to words by the model's tokenizer.json; prompts of ids need none."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from attnflow._common.checks import InputError
from attnflow.models.source import Source, extra

FILE = "tokenizer.json"


@dataclass(frozen=True, eq=False)
class Tokens:
    """An encoded prompt: one id and one word (or piece of a word) a token."""

    ids: np.ndarray
    words: list[str]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def content(self) -> np.ndarray:
        """The ids, which the model embeds."""
        return self.ids


Prompt = str | os.PathLike | Sequence[int] | np.ndarray | Tokens


class Tokenizer:
    """The tokenizer of a model, opened when text is first given."""

    def __init__(self, source: Source, vocabulary: int, make: Callable[[], Any] | None = None):
        self._source = source
        self._vocabulary = vocabulary
        self._make = make  # gives the library's tokenizer, or None, where there is no tokenizer.json

    def encode(self, prompt: Prompt) -> Tokens:
        """A text with the special tokens that the model expects around it; ids are taken as they are."""
        if isinstance(prompt, Tokens):
            return self.encode(prompt.ids)
        ids = self._ids_of(prompt) if isinstance(prompt, str) else self._as_ids(prompt)
        self._require_in_vocabulary(ids)
        return Tokens(ids.astype(int), self._words(ids))

    @property
    def reads_text(self) -> bool:
        """Whether the model comes with a tokenizer; without one, prompts are ids."""
        return self._source.find(FILE) is not None or (self._make is not None and self._library is not None)

    def _ids_of(self, text: str) -> np.ndarray:
        if not text.strip():
            raise InputError("`prompt` must have at least one word, but it is empty.")
        if self._library is None:
            raise InputError(
                f"{self._source} has no {FILE}, so text cannot be read. Pass a list of ids below {self._vocabulary} "
                "instead, or make the file with transformers: AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)"
            )
        return np.array(self._library.encode(text).ids, dtype=int)

    def _as_ids(self, prompt: os.PathLike | Sequence[int] | np.ndarray) -> np.ndarray:
        try:
            ids = np.asarray(prompt)
        except ValueError:  # lists of different lengths
            ids = np.asarray(prompt, dtype=object)
        if ids.ndim != 1 or len(ids) == 0 or ids.dtype.kind not in "iu":
            found = "it is empty" if ids.size == 0 else f"it has shape {ids.shape} and type {ids.dtype}"
            raise InputError(f"`prompt` must be a text or a list of whole numbers, the ids of tokens, but {found}.")
        return ids

    def _require_in_vocabulary(self, ids: np.ndarray) -> None:
        outside = np.flatnonzero((ids < 0) | (ids >= self._vocabulary))
        if len(outside):
            raise InputError(
                f"The ids of `prompt` must be from 0 to {self._vocabulary - 1}, the model's vocabulary, but "
                f"{len(outside)} of {len(ids)} are not: the first is {ids[outside[0]]} at position {outside[0]}."
            )

    def _words(self, ids: np.ndarray) -> list[str]:
        try:
            library = self._library
        except InputError:  # a damaged file, or no library to read it with: ids need neither
            library = None
        return [_word(library, int(one)) for one in ids]

    @cached_property
    def _library(self) -> Any:
        """The library's tokenizer, or None if the model has no file for it."""
        path = self._source.find(FILE)
        if path is None:
            return None if self._make is None else self._make()
        try:
            opened = extra("tokenizers").Tokenizer.from_file(str(path))
        except InputError:
            raise
        except Exception as error:  # the library raises plain Exception
            raise InputError(
                f"{FILE} of {self._source} cannot be read ({error}). Fetch it again, or pass ids."
            ) from error
        opened.no_truncation()
        opened.no_padding()
        return opened


def of_vocabulary(path: Path, pattern: str) -> Any:
    """A tokenizer that cuts a text by a pattern and looks up each piece in the lines of a vocab.txt."""
    library = extra("tokenizers")
    words = path.read_text(encoding="utf-8").splitlines()
    places = {word: place for place, word in enumerate(words)}
    made = library.Tokenizer(library.models.WordLevel(places, unk_token="[UNK]"))
    made.pre_tokenizer = library.pre_tokenizers.Split(library.Regex(pattern), behavior="removed", invert=True)
    ends = {word: places[word] for word in ("[CLS]", "[SEP]")}
    made.post_processor = library.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=list(ends.items())
    )
    return made


def _word(library: Any, one: int) -> str:
    """The text of a token, or its name in the vocabulary where the text is not readable."""
    if library is None:
        return str(one)
    text = library.decode([one], skip_special_tokens=False).strip()
    is_readable = text and "\N{REPLACEMENT CHARACTER}" not in text
    return text if is_readable else str(library.id_to_token(one) or one)
