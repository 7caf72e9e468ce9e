"""Builds the native kernels; everything else is in pyproject.toml."""

import importlib.util
from pathlib import Path

from setuptools import Extension, setup

QUIET = ["-Wno-psabi", "-Wno-attributes", "-Wno-return-type"]  # of XLA's headers


def xla_headers() -> str:
    """The folder of XLA's foreign-function headers, which jaxlib carries."""
    spec = importlib.util.find_spec("jaxlib")
    return str(Path(spec.origin).parent / "include") if spec and spec.origin else ""


setup(
    ext_modules=[
        Extension(
            "attnflow._fused",
            ["src/attnflow/fused.cpp", "src/attnflow/sprint.cpp"],
            depends=["src/attnflow/lanes.h"],
            include_dirs=[xla_headers(), "src/attnflow"],
            language="c++",
            extra_compile_args=["-std=c++17", "-O3", "-funroll-loops", *QUIET],
            optional=True,  # without a compiler the same sums go through XLA
        )
    ]
)
