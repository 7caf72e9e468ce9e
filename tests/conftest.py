"""Shared by all tests: one cache of compiled code for all workers and runs."""

import os
from pathlib import Path

# Small matrices in SciPy are slower with threads, above all when every core has a worker.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

CACHE = Path(__file__).parent.parent / ".pytest_cache" / "compiled"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")
