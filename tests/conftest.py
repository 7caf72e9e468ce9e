"""Shared by all tests: one cache of compiled code for all workers and runs, compiled quickly."""

import gc
import os
from importlib.metadata import version
from pathlib import Path

import pytest

# Small matrices in SciPy are slower with threads, above all when every core has a worker.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# The cache outlives a checkout: XLA's key holds the program, the flags and the versions, so that nothing stale is used.
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "attnflow" / "compiled-by-tests"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))
# Small programs are kept too: to read one takes a quarter of the time to compile it, and another worker, or the same one
# after its programs were dropped, needs most of them again (126 programs: 4.9 s of processor time, 2.9 s once kept).
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")

# Most of the suite's time goes into compiling programs that run for milliseconds. Without optimisation and in one
# piece they compile in half the time (24 flows against the oracle: 42 s of processor time with level 1, 22 s so).
# XLA aborts on a flag it does not know, so the flags are given only to versions known to have them.
if version("jaxlib").startswith(("0.8.", "0.9.", "0.10.")):
    QUICK_TO_COMPILE = "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
    os.environ.setdefault("XLA_FLAGS", QUICK_TO_COMPILE)


def pytest_collection_modifyitems(items):
    """Begin with the report of all figures, which takes minutes of one worker while the others go on."""
    items.sort(key=lambda item: item.path.name != "test_report.py")


def pytest_collection_finish():
    """Leave modules and collected tests out of garbage collections, of which tracing programs causes many."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@pytest.fixture(scope="session", autouse=True)
def programs_are_dropped_half_as_often():
    """Let a worker grow by 1 GB, as against 512 MB, before it drops programs that later tests compile again."""
    from attnflow._common import jit_cache

    jit_cache.CEILING = 1e9
