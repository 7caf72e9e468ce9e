"""Pictures of one run of `simulate`."""
