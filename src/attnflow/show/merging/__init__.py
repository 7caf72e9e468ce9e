"""Pictures of runs of `coalesce`: energies, merge trees, plateaus."""
