"""The result of a run: arrays, outcome sentences, datasets, recorded models, files."""
