"""Studies over many runs: the atlas of limits, robustness, validity of frozen attention, Conjecture 1."""
