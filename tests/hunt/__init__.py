"""A search for wrong numbers and false statements among random cases, longer than the tests: `python -m tests.hunt`."""
