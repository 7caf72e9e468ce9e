"""Benchmarks: one question a file. `python -m benchmarks.NAME` answers at full size."""
