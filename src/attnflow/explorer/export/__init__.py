"""Files of a run: dataset, Python code, movie, and a page that plays it."""
