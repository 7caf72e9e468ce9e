"""Shared by all tests: one cache of compiled code for all workers and runs, compiled quickly."""

import os
from importlib.metadata import version
from pathlib import Path

# Small matrices in SciPy are slower with threads, above all when every core has a worker.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

CACHE = Path(__file__).parent.parent / ".pytest_cache" / "compiled"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")

# Four fifths of the suite's time went into compiling programs that run for milliseconds: these settings halve it.
# XLA aborts on a setting it does not know, so they are given only to versions known to have them.
if version("jaxlib").startswith(("0.8.", "0.9.", "0.10.")):
    QUICK_TO_COMPILE = "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=1"
    os.environ.setdefault("XLA_FLAGS", QUICK_TO_COMPILE)
