"""Sources of a model's files: a directory, a package, a file, or the Hugging Face hub (fetched on first use)."""

import importlib
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from attnflow._common import extras
from attnflow._common.checks import InputError
from attnflow.models.registry import PACKAGED, Packaged

HUB_NAME = re.compile(r"^[\w-][\w.-]*(/[\w-][\w.-]*)?$")


@dataclass(frozen=True)
class Directory:
    """Files in a directory; needs no network."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def find(self, file: str) -> Path | None:
        """The path of a file, or None if there is none of that name."""
        path = self.path / file
        return path if os.path.isfile(path) else None


@dataclass(frozen=True)
class Package(Directory):
    """The folder of a model in an installed package."""

    packaged: Packaged


@dataclass(frozen=True)
class File:
    """A file that holds a whole model."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def find(self, file: str) -> None:
        """None: there are no other files."""
        del file


@dataclass(frozen=True)
class Memory:
    """A model in memory, with a tokenizer.json where one is given."""

    tokenizer: str | os.PathLike | None = None

    def __str__(self) -> str:
        return "the model in memory"

    def find(self, file: str) -> Path | None:
        """The path of the tokenizer; None for every other file."""
        return Path(self.tokenizer) if self.tokenizer is not None and file == "tokenizer.json" else None


@dataclass(frozen=True)
class Hub:
    """Files of a repository of the Hugging Face hub, each fetched once and kept in its cache."""

    repository: str
    revision: str | None = None
    """A branch, a tag or a commit; None: the main branch."""

    def __str__(self) -> str:
        return self.repository if self.revision is None else f"{self.repository}@{self.revision}"

    def find(self, file: str) -> Path | None:
        """The path of the fetched file, or None if the repository has none of that name."""
        user = f"`{self.repository}` is not a directory, and fetching it from the Hugging Face hub"
        hub = extras.imported("huggingface_hub", user)
        errors = importlib.import_module("huggingface_hub.errors")
        try:
            kept = hub.try_to_load_from_cache(self.repository, file, revision=self.revision)
        except errors.HFValidationError as error:
            raise InputError(
                f"`{self.repository}` is neither a directory nor a name of the Hugging Face hub. {WHAT_TO_PASS}"
            ) from error
        if kept is not None:  # a path, or a sentinel for a file that does not exist
            return Path(kept) if isinstance(kept, str) else None
        try:
            # Without a network this fails at once, while the download would retry for half a minute.
            with suppress(errors.EntryNotFoundError):
                hub.get_hf_file_metadata(hub.hf_hub_url(self.repository, file, revision=self.revision))
            return Path(hub.hf_hub_download(self.repository, file, revision=self.revision))
        except errors.LocalEntryNotFoundError as error:
            raise self._unreachable(file, error) from error
        except errors.EntryNotFoundError:
            return None
        except errors.RevisionNotFoundError as error:
            raise InputError(
                f"`revision` must be a branch, a tag or a commit of {self.repository}, but {self.revision!r} is none. "
                "The page of the model on the hub lists them under Files."
            ) from error
        except (errors.RepositoryNotFoundError, errors.GatedRepoError) as error:
            raise InputError(
                f"`{self.repository}` is neither a directory nor a model that you can read on the Hugging Face hub. "
                f"{WHAT_TO_PASS}"
            ) from error
        except Exception as error:  # versions of the library raise different transport errors
            raise self._unreachable(file, error) from error

    def _unreachable(self, file: str, error: Exception) -> InputError:
        return InputError(
            f"`{self.repository}` is not a directory, and {file} cannot be fetched from the Hugging Face hub "
            f"({type(error).__name__}): is there a network? {WHAT_TO_PASS}"
        )


Source = Directory | File | Hub | Memory
WHAT_TO_PASS = (
    f"Pass a directory with config.json and model.safetensors, a .gguf file, or {' or '.join(map(repr, PACKAGED))}."
)


def locate(name: str | os.PathLike, revision: str | None = None) -> Directory | File | Hub:
    """The source behind a name: a packaged model, a directory, a file, or a name of the hub, in this order."""
    found = _located(name)
    if revision is None:
        return found
    if not isinstance(found, Hub):
        raise InputError(
            f"`revision` names a state of a repository of the hub, but {name} is on this machine. Leave it out, or "
            "pass the directory of that state."
        )
    if not isinstance(revision, str) or not revision:
        raise InputError(f"`revision` must be a branch, a tag or a commit, such as 'step1000', but it is {revision!r}.")
    return Hub(found.repository, revision)


def _located(name: str | os.PathLike) -> Directory | File | Hub:
    if str(name) in PACKAGED:
        packaged = PACKAGED[str(name)]
        path = packaged.path(str(name))
        return File(path) if path.suffix == ".gguf" else Package(path, packaged)
    path = Path(os.path.expanduser(name))
    if os.path.isdir(path):  # unlike methods of Path, false for names that the system refuses
        return _sole_gguf(path) or Directory(path)
    if os.path.isfile(path):
        if path.suffix.lower() == ".gguf":
            return File(path)
        raise InputError(
            f"A model is a directory or a .gguf file, but {path} is another file. Pass its directory, {path.parent}."
        )
    if isinstance(name, str) and HUB_NAME.match(name) and not name.endswith(".gguf"):
        return Hub(name)
    raise InputError(f"There is no model at {name}. {WHAT_TO_PASS}")


def _sole_gguf(folder: Path) -> File | None:
    """The GGUF file of a directory that holds one and no other weights."""
    if any(folder.glob("model*.safetensors*")) or any(folder.glob("model.npz")):
        return None
    found = sorted(folder.glob("*.gguf"))
    if len(found) > 1:
        raise InputError(f"{folder} holds {len(found)} GGUF files. Pass the one you want, such as {found[0]}.")
    return File(found[0]) if found else None


def extra(module: str):
    """An optional library, or InputError with the command that installs it."""
    return extras.imported(module, "Reading trained models")
