"""Builds the native kernels; everything else is in pyproject.toml."""

import importlib.util
from pathlib import Path

import setuptools
from setuptools import Distribution, Extension, setup

NATIVE = "src/attnflow/model/native"
QUIET = ["-Wno-psabi", "-Wno-attributes", "-Wno-return-type"]  # of XLA's headers


def xla_headers() -> str:
    """The folder of XLA's foreign-function headers, which jaxlib carries."""
    spec = importlib.util.find_spec("jaxlib")
    return str(Path(spec.origin).parent / "include") if spec and spec.origin else ""


class AnySetuptools(Distribution):
    """Lets an older setuptools, which cannot read pyproject.toml, run `setup.py build_ext --inplace`."""

    def parse_config_files(self, *arguments, **options) -> None:
        """Read pyproject.toml, as far as this setuptools can."""
        try:
            super().parse_config_files(*arguments, **options)
        except ValueError:
            if int(setuptools.__version__.split(".")[0]) >= 77:  # as pyproject.toml requires for packages
                raise


setup(
    distclass=AnySetuptools,
    package_dir={"": "src"},
    ext_modules=[
        Extension(
            "attnflow.model.native._kernels",
            [f"{NATIVE}/{name}.cpp" for name in ("attention_sums", "other_sums", "runs", "subcycling")],
            depends=sorted(str(path) for path in Path(NATIVE).glob("*.h")),
            include_dirs=[xla_headers(), NATIVE],
            language="c++",
            extra_compile_args=["-std=c++17", "-O3", "-fno-math-errno", *QUIET],
            optional=True,  # without a compiler the same sums go through XLA
        )
    ],
)
