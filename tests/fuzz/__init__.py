"""Random command lines, damaged files, and killed processes: `python -m tests.fuzz`."""
