"""Files made from a run on display: datasets, Python code, movies, single pages."""
