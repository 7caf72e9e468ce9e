"""Builds the native library; everything else is in pyproject.toml."""

import importlib.util
import os
import sys
from pathlib import Path

import setuptools
from setuptools import Distribution, Extension, setup

NATIVE = "src/attnflow/model/native"
SOURCES = (
    "attention_sums",
    "cell_series",
    "host_calls",
    "observables",
    "other_sums",
    "pair_pullback",
    "runs",
    "subcycling",
)
# No option names a processor: the library chooses its vector instructions when it runs, so that wheels run everywhere.
OPTIONS = ("-std=c++17", "-O3", "-g0", "-fno-math-errno")
QUIET = ("-Wno-psabi", "-Wno-attributes", "-Wno-return-type")  # of XLA's headers


def xla_headers() -> str:
    """The folder of XLA's foreign-function headers, which jaxlib carries."""
    spec = importlib.util.find_spec("jaxlib")
    return str(Path(spec.origin).parent / "include") if spec and spec.origin else ""


def extensions(system: str, is_required: bool) -> list[Extension]:
    """The native library for a system, named as in `sys.platform`.

    There is none for Windows, since Microsoft's compiler has no vector types: XLA computes the same sums there.
    Elsewhere XLA does so if the library cannot be built, unless it is required.
    """
    if system == "win32":
        return []
    return [
        Extension(
            "attnflow.model.native._kernels",
            [f"{NATIVE}/{name}.cpp" for name in SOURCES],
            depends=sorted(str(path) for path in Path(NATIVE).glob("*.h")),
            include_dirs=[xla_headers(), NATIVE],
            language="c++",
            extra_compile_args=[*OPTIONS, *QUIET],
            py_limited_api=True,  # it calls nothing of Python, and one file serves all versions
            optional=not is_required,
        )
    ]


class AnySetuptools(Distribution):
    """Lets an older setuptools, which cannot read pyproject.toml, run `setup.py build_ext --inplace`."""

    def parse_config_files(self, *arguments, **options) -> None:
        """Read pyproject.toml, as far as this setuptools can."""
        try:
            super().parse_config_files(*arguments, **options)
        except ValueError:
            if int(setuptools.__version__.split(".")[0]) >= 77:  # as pyproject.toml requires for packages
                raise


def commands() -> dict[str, type]:
    """The command that makes a wheel; an older setuptools has none and needs none."""
    try:
        from setuptools.command.bdist_wheel import bdist_wheel
    except ImportError:
        return {}

    class SystemWheel(bdist_wheel):
        """A wheel for one system and all versions of Python, since the library is called through ctypes."""

        def finalize_options(self) -> None:
            """Name the system, also where there is no library."""
            super().finalize_options()
            self.root_is_pure = False

        def get_tag(self) -> tuple[str, str, str]:
            """The tags of Python, its binary interface and the system."""
            return "py3", "none", super().get_tag()[2]

    return {"bdist_wheel": SystemWheel}


if __name__ == "__main__":
    setup(
        distclass=AnySetuptools,
        package_dir={"": "src"},
        cmdclass=commands(),
        ext_modules=extensions(sys.platform, os.environ.get("ATTNFLOW_REQUIRE_NATIVE") == "1"),
    )
