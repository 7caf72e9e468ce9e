"""Pictures of studies: atlas, robustness, Conjecture 1, Renyi centres."""
